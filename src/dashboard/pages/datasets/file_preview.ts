/** The rows that an upload will store, from the first bytes of its file. The server reads the kinds that the page cannot. Pure. */
import { errorText } from "../../../lib/error_text.ts";
import { parseCells } from "../../../lib/rows/cells.ts";
import { type ColumnMap, renameRow } from "../../../lib/rows/columns.ts";
import { convertRow } from "../../../lib/rows/convert.ts";
import { delimiterOf, isJsonLines, textKind } from "../../../lib/rows/file_kind.ts";
import { type Format, formatOf, isRow, type Row, rowFault } from "../../../lib/rows/format.ts";
import { columnsOf, detectShape, LOOKED_AT_ROWS, type Shape, suggestedMap } from "../../../lib/rows/shape.ts";
import { csvRows } from "./csv.ts";

/** `shape`: what the rows look like. Undefined: the columns have other names. */
export type Preview = {
  /** The first rows as they will be stored. */
  rows: Row[];
  format: Format | undefined;
  shape: Shape | undefined;
  faults: { line: number; message: string }[];
};

type Parsed = { line: number; row?: Row; fault?: string };
export type FileRows = {
  parsed: readonly Parsed[];
  /** Cells are text. */
  isCells: boolean;
  /** In the file. */
  columns: readonly string[];
};
const MOST_READ = 2_000; // rows of a preview that are checked
const MOST_SHOWN = 5;

/** The first rows of JSON lines to append. `isWhole` false: the text ends within a line. */
export const previewOf = (text: string, isWhole: boolean): Preview => checked(parsedLines(text, isWhole), undefined);

/** The rows of a file that can be read here. Undefined for Parquet, packed files and large JSON arrays. */
export function fileRowsOf(start: Uint8Array, name: string, isWhole: boolean): FileRows | undefined {
  if (start.subarray(0, 4_096).includes(0) || /\.(gz|gzip|zst|zstd|parquet|pq)$/i.test(name)) return undefined;
  const text = new TextDecoder().decode(start).replace(/^\ufeff/, "");
  if (isJsonLines(start, name)) return withColumns(parsedLines(text, isWhole), false);
  const kind = textKind(start, name);
  if (kind === "csv" || kind === "tsv") return withColumns(parsedCsv(text, delimiterOf(kind, start), isWhole), true);
  return kind === "json" && isWhole ? withColumns(parsedArray(text), false) : undefined;
}

const withColumns = (parsed: readonly Parsed[], isCells: boolean): FileRows => ({
  parsed,
  isCells,
  columns: columnsOf(parsed.slice(0, LOOKED_AT_ROWS).flatMap(({ row }) => (row ? [row] : []))),
});

/** A map that makes the columns a known shape. Empty: they are one already, or nothing is known of them. */
export function firstMapOf({ parsed, columns, isCells }: FileRows): ColumnMap {
  const rows = parsed.slice(0, LOOKED_AT_ROWS).flatMap(({ row }) => (row ? [isCells ? parseCells(row) : row] : []));
  return detectShape(rows).type === "unknown" ? (suggestedMap(columns) ?? {}) : {};
}

/** The preview under a map. `chosen`: the answer to the question which shape is meant. */
export function filePreviewOf({ parsed, isCells }: FileRows, map: ColumnMap, chosen?: Shape): Preview {
  const mapped = parsed.map(({ line, row, fault }): Parsed => {
    if (!row) return { line, ...(fault === undefined ? {} : { fault }) };
    try {
      return { line, row: renameRow(isCells ? parseCells(row) : row, map) };
    } catch (error) {
      return { line, fault: errorText(error) };
    }
  });
  const rows = mapped.slice(0, LOOKED_AT_ROWS).flatMap(({ row }) => (row ? [row] : []));
  const detected = detectShape(rows);
  return checked(mapped, chosen ?? (detected.type === "found" ? detected.shape : undefined));
}

/** Shapes that the rows could have, if there is more than one. */
export function ambiguousShapes(file: FileRows, map: ColumnMap): readonly Shape[] {
  const rows = file.parsed
    .slice(0, LOOKED_AT_ROWS)
    .flatMap(({ row }) => (row ? [renameRow(file.isCells ? parseCells(row) : row, map)] : []));
  const detected = detectShape(rows);
  return detected.type === "ambiguous" ? detected.shapes : [];
}

function parsedLines(text: string, isWhole: boolean): Parsed[] {
  const lines = text.split("\n");
  if (!isWhole) lines.pop();
  const parsed: Parsed[] = [];
  for (const [i, line] of lines.entries()) {
    if (parsed.length >= MOST_READ) break;
    if (line.trim() !== "") parsed.push(parsedRow(i + 1, () => JSON.parse(line)));
  }
  return parsed;
}

function parsedCsv(text: string, delimiter: string, isWhole: boolean): Parsed[] {
  const [header, ...rows] = csvRows(text, delimiter, isWhole, MOST_READ);
  const names = header?.cells ?? [];
  return rows.map(({ line, cells }) =>
    cells.length > names.length
      ? { line, fault: `the row has ${cells.length} cells, and the header ${names.length}` }
      : { line, row: Object.fromEntries(names.map((name, i) => [name, cells[i] ?? ""])) },
  );
}

function parsedArray(text: string): Parsed[] {
  try {
    const all = JSON.parse(text) as unknown;
    return (Array.isArray(all) ? all : [all]).slice(0, MOST_READ).map((row, i) => parsedRow(i + 1, () => row));
  } catch (error) {
    return [{ line: 1, fault: errorText(error) }];
  }
}

function parsedRow(line: number, read: () => unknown): Parsed {
  try {
    const row = read();
    return isRow(row) ? { line, row } : { line, fault: "a row must be a JSON object" };
  } catch (error) {
    return { line, fault: errorText(error) };
  }
}

function checked(parsed: readonly Parsed[], shape: Shape | undefined): Preview {
  const preview: Preview = { rows: [], format: undefined, shape, faults: [] };
  for (const { line, row, fault } of parsed) {
    if (preview.faults.length >= MOST_SHOWN) break;
    try {
      if (!row) throw new Error(fault);
      const converted = shape === undefined ? row : convertRow(row, shape);
      preview.format ??= formatOf(converted);
      const wrong = rowFault(converted, preview.format);
      if (wrong) throw new Error(wrong.message);
      if (preview.rows.length < MOST_SHOWN) preview.rows.push(converted);
    } catch (error) {
      preview.faults.push({ line, message: errorText(error) });
    }
  }
  return preview;
}

/** The map that the server proposes in an error, such as `question=prompt,answer=completion`. */
export const proposedMap = (message: string): string | undefined => /`map`, for example (\S+)$/.exec(message)?.[1];
