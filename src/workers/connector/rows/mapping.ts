/** Renames source columns to target columns, as hub_config.column_mapping says. */
import { ColumnClash, type ColumnMap, renameColumns, renameRow, replaceContent } from "../../../lib/rows/columns.ts";
import type { Row } from "../../../lib/rows/format.ts";
import { hasOddNumbers, parseExact } from "../../../lib/rows/json.ts";
import { SourceError } from "../types.ts";

export const renamedColumns = (names: readonly string[], mapping: ColumnMap = {}): string[] =>
  explained(() => renameColumns(names, mapping));

/** For the reader of rows: changes `row`, so that the checked row is the stored row, and returns its text. */
export function renaming(mapping: ColumnMap = {}): ((row: Row, text: string) => string) | undefined {
  if (Object.keys(mapping).length === 0) return undefined;
  return (row, text) => {
    const exact = hasOddNumbers(text) ? (parseExact(text) as Row) : row;
    const renamed = explained(() => renameRow(exact, mapping));
    replaceContent(row, renamed);
    return JSON.stringify(renamed);
  };
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
