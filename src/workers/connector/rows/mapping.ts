/** Renames source columns to target columns, as hub_config.column_mapping says, and converts known shapes. */
import { ColumnClash, type ColumnMap, renameColumns, renameRow, replaceContent } from "../../../lib/rows/columns.ts";
import { ConversionError, convertRow } from "../../../lib/rows/convert.ts";
import type { Row } from "../../../lib/rows/format.ts";
import { hasOddNumbers, parseExact } from "../../../lib/rows/json.ts";
import { RowError } from "../../../lib/rows/row_error.ts";
import { detectShape, isForeign, SHAPE_FACTS, type Shape } from "../../../lib/rows/shape.ts";
import { SourceError } from "../types.ts";

export const renamedColumns = (names: readonly string[], mapping: ColumnMap = {}): string[] =>
  explained(() => renameColumns(names, mapping));

/** Renames columns and converts the shapes of other tools, as an upload does. For `createLineReader`. */
export type Shaping = {
  first: (rows: Row[]) => void;
  /** Changes `row`, so that the checked row is the stored row, and returns its text if it differs. */
  visit: (row: Row, text: string, line: number) => string | undefined;
  readonly shape: Shape | undefined;
};

/** `begun` is the shape that an interrupted reading found; undefined: the first rows decide. */
export function createShaping(mapping: ColumnMap = {}, begun?: Shape | null): Shaping {
  const isMapped = Object.keys(mapping).length > 0;
  const renamed = (row: Row) => (isMapped ? explained(() => renameRow(row, mapping)) : row);
  let shape = begun ?? undefined;
  return {
    first(rows) {
      if (begun === undefined) shape = shapeOf(rows.map(renamed));
    },
    visit(row, text, line) {
      const converts = shape !== undefined && isForeign(shape);
      if (!isMapped && !converts) return undefined;
      const before = renamed(hasOddNumbers(text) ? (parseExact(text) as Row) : row);
      try {
        const converted = converts ? convertRow(before, shape as Shape) : before;
        replaceContent(row, converted);
        return JSON.stringify(converted);
      } catch (error) {
        throw error instanceof ConversionError ? new RowError(line, error.message) : error;
      }
    },
    get shape() {
      return shape;
    },
  };
}

/** Rows that fit a shape of our own are stored as they are, whatever else they fit. */
export function shapeOf(rows: readonly Row[]): Shape | undefined {
  const detection = detectShape(rows);
  if (detection.type !== "ambiguous") return detection.type === "found" ? detection.shape : undefined;
  const ownShape = detection.shapes.find((each) => !isForeign(each));
  if (ownShape !== undefined) return ownShape;
  const labels = detection.shapes.map((each) => SHAPE_FACTS[each].label);
  throw new RowError(1, `the rows fit ${labels.join(" and ")}. Remove or rename a column, so that one shape is left`);
}

function explained<T>(rename: () => T): T {
  try {
    return rename();
  } catch (error) {
    if (!(error instanceof ColumnClash)) throw error;
    throw new SourceError(
      "invalid_rows",
      `column_mapping produces two columns named ${error.column}. Choose another name for one of them`,
      "/hub_config/column_mapping",
    );
  }
}
