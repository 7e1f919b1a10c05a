/**
 * Turns the rows of an uploaded file into rows of ours while they stream: renames columns, recognizes the shape by the
 * first rows, and converts each row. A file of our own shape without a map passes unchanged, byte for byte.
 */
import { z } from "zod";
import { nearest } from "../text/nearest.ts";
import { parseCells } from "./cells.ts";
import { ColumnClash, renameRow, replaceContent } from "./columns.ts";
import { ConversionError, convertRow } from "./convert.ts";
import type { FileKind } from "./file_kind.ts";
import { FORMATS, type Format, type Row } from "./format.ts";
import { hasOddNumbers, parseExact } from "./json.ts";
import { RowError } from "./row_error.ts";
import { columnsOf, detectShape, isForeign, SHAPE_FACTS, SHAPES, type Shape, suggestedMap } from "./shape.ts";

/** How a file is to be read. Nothing is needed for a file of a known shape. */
export const ShapeOptions = z.strictObject({
  map: z.record(z.string(), z.string()),
  shape: z.enum(SHAPES).optional(),
  format: z.enum(FORMATS).optional(),
  /** Cells are text: messages in them are JSON, and a label is the word true or false. */
  cells: z.boolean(),
});
export type ShapeOptions = z.infer<typeof ShapeOptions>;

export type Shaping = {
  /** Gets the first rows before any is visited. Throws RowError when the shape is unclear. */
  first: (rows: Row[]) => void;
  /** Changes `row` to the row that is stored. Returns its text, or undefined if the row stays as it was sent. */
  visit: (row: Row, text: string, line: number) => string | undefined;
  /** Explains a fault of the first row with the columns that the file has. */
  hint: () => string;
  readonly shape: Shape | undefined;
};

const MOST_COLUMNS = 12; // named in a message

export function createShaping({ map, shape: requestedShape, format, cells }: ShapeOptions): Shaping {
  let shape = requestedShape;
  let columns: string[] = [];
  const isMapped = Object.keys(map).length > 0;
  const prepared = (row: Row) => {
    const parsed = cells ? parseCells(row) : row;
    return isMapped ? renameRow(parsed, map) : parsed;
  };

  function first(rows: Row[]) {
    columns = columnsOf(rows);
    for (const name of Object.keys(map))
      if (!columns.includes(name)) throw new RowError(1, noColumn(name, columns), "map");
    const detection = detectShape(withoutClash(rows, prepared), format);
    if (shape !== undefined) return;
    if (detection.type === "found") shape = detection.shape;
    else if (detection.type === "ambiguous") throw new RowError(1, question(detection.shapes), "shape");
  }

  function visit(row: Row, text: string, line: number): string | undefined {
    const converts = shape !== undefined && isForeign(shape);
    if (!isMapped && !cells && !converts) return undefined;
    const exact = hasOddNumbers(text) ? (parseExact(text) as Row) : row;
    try {
      const before = prepared(exact);
      const converted = converts ? convertRow(before, shape as Shape) : before;
      replaceContent(row, converted);
      return JSON.stringify(converted);
    } catch (error) {
      if (error instanceof ConversionError) throw new RowError(line, error.message);
      if (error instanceof ColumnClash) throw new RowError(line, error.message, "map");
      throw error;
    }
  }

  function hint(): string {
    if (shape !== undefined || columns.length === 0) return "";
    const suggested = suggestedMap(columns);
    const pairs = Object.entries(suggested ?? { [columns[0]!]: "prompt" }).map(([from, to]) => `${from}=${to}`);
    return `. The columns are ${listed(columns)}. Name the fields with \`map\`, for example ${pairs.join(",")}`;
  }

  return {
    first,
    visit,
    hint,
    get shape() {
      return shape;
    },
  };
}

function withoutClash(rows: readonly Row[], prepared: (row: Row) => Row): Row[] {
  try {
    return rows.map(prepared);
  } catch (error) {
    if (error instanceof ColumnClash) throw new RowError(1, error.message, "map");
    throw error;
  }
}

function noColumn(name: string, columns: readonly string[]): string {
  const close = nearest(name, columns);
  const hint = close === undefined ? `The columns are ${listed(columns)}` : `Did you mean ${close}?`;
  return `\`map\` names the column ${JSON.stringify(name.slice(0, 80))}, which the first rows do not have. ${hint}`;
}

function question(shapes: readonly Shape[]): string {
  const options = shapes.map((shape) => `${SHAPE_FACTS[shape].label} (${SHAPE_FACTS[shape].columns})`);
  return `the rows fit ${shapes.length} shapes: ${options.join(" and ")}. Choose one with \`shape\`: ${shapes.join(" or ")}`;
}

const listed = (names: readonly string[]) =>
  names.slice(0, MOST_COLUMNS).join(", ") +
  (names.length > MOST_COLUMNS ? ` and ${names.length - MOST_COLUMNS} more` : "");

/** The file and the shape of an upload, and the fields that its columns became. */
export type Detected = { file: FileKind; shape: Shape; fields: string[]; rows: number; summary: string };

const FILE_NAMES: Partial<Record<FileKind, string>> = { json: "JSON", csv: "CSV", tsv: "TSV", parquet: "Parquet" };

export function describeDetected(file: FileKind, shape: Shape, rows: number): Detected {
  const { label, fields } = SHAPE_FACTS[shape];
  const kind = FILE_NAMES[file] === undefined ? "" : ` in ${FILE_NAMES[file]}`;
  const count = `${rows.toLocaleString("en-US")} ${rows === 1 ? "row" : "rows"}`;
  return { file, shape, fields: [...fields], rows, summary: `${label}${kind}, ${count} → ${fields.join("/")}` };
}

/** The shape of rows that passed the check of their format without a detection. */
export const shapeOf = (shape: Shape | undefined, format: Format): Shape => shape ?? format;
