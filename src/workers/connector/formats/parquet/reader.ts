/**
 * Reads Parquet row group by row group and page by page, with range requests. hyparquet decodes the encodings. This
 * folder decides the meaning of values, the assembly of rows and the memory limit. NOT covered, and rejected with a
 * message: encrypted files, VARIANT, LZO, levels in the deprecated BIT_PACKED encoding.
 */
import { SourceError } from "../../types.ts";
import {
  badRows,
  type FormatOptions,
  PIECE_CHARACTERS,
  PIECE_ROWS,
  type Piece,
  type SourceFile,
  tooLong,
} from "../file.ts";
import { Budget, Column, type Read } from "./column.ts";
import { type Footer, type RowGroup, readFooter } from "./footer.ts";
import { RowTooLong, rowWriter } from "./record.ts";
import { textOf } from "./text.ts";

const OPEN_BYTES = 512 * 2 ** 20; // decompressed pages and the values made from them
const WINDOWS_BYTES = 24 * 2 ** 20; // compressed bytes of all columns together
const LEAST_WINDOW_BYTES = 128 * 1024;
const MOST_WINDOW_BYTES = 4 * 2 ** 20;

export async function* parquetRows(file: SourceFile, options: FormatOptions): AsyncIterable<Piece> {
  let row = 0;
  try {
    const footer = await readFooter(file);
    const budget = new Budget(OPEN_BYTES);
    let start = 0;
    for (const group of footer.groups) {
      const skip = Math.max(0, options.from.row - start);
      row = start + skip;
      if (skip < group.rows)
        for await (const lines of groupRows(file, { footer, group, skip, rowBytes: options.rowBytes, budget })) {
          row += lines.length;
          yield { lines, place: { row, byte: null } };
        }
      start += group.rows;
      budget.giveAll();
    }
  } catch (error) {
    throw explained(error, file, row, options.rowBytes);
  }
}

export const parquetCount = (file: SourceFile) =>
  readFooter(file).then(
    ({ rows }) => rows,
    (error) => Promise.reject(explained(error, file, 0, 0)),
  );

export const parquetColumns = (file: SourceFile) =>
  readFooter(file).then(
    ({ root }) => root.children.map(({ name }) => name),
    (error) => Promise.reject(explained(error, file, 0, 0)),
  );

function explained(error: unknown, file: SourceFile, row: number, rowBytes: number): unknown {
  if (error instanceof SourceError) return error;
  if (error instanceof RowTooLong) return tooLong(file, `a row after row ${row}`, rowBytes);
  const why =
    error instanceof RangeError || error instanceof TypeError ? "it is inconsistent" : (error as Error).message;
  return badRows(file, `it cannot be read as Parquet: ${why}`, error);
}

type Group = { footer: Footer; group: RowGroup; skip: number; rowBytes: number; budget: Budget };

async function* groupRows(
  file: SourceFile,
  { footer, group, skip, rowBytes, budget }: Group,
): AsyncGenerator<string[]> {
  const read = await reading(file, group);
  const windowBytes = Math.floor(WINDOWS_BYTES / group.chunks.length);
  const columns = footer.leaves.map((leaf, i) => {
    const toText = textOf(leaf.element, leaf.name, rowBytes);
    const clamped = Math.min(MOST_WINDOW_BYTES, Math.max(LEAST_WINDOW_BYTES, windowBytes));
    return new Column({ leaf, chunk: group.chunks[i]!, read, windowBytes: clamped, budget, toText });
  });
  const write = rowWriter(footer.root, columns, rowBytes);
  let lines: string[] = [];
  let characters = 0;
  for (let row = 0; row < group.rows; ) {
    await Promise.all(columns.filter(({ ready }) => ready === 0).map((column) => column.fill()));
    const ready = Math.min(...columns.map((column) => column.ready), group.rows - row);
    if (ready === 0) throw new Error(`a row group claims ${group.rows} rows, but ends after ${row}`);
    for (const end = row + ready; row < end; row++) {
      const line = write();
      if (row < skip) continue;
      lines.push(line);
      characters += line.length;
      if (lines.length < PIECE_ROWS && characters < PIECE_CHARACTERS) continue;
      yield lines;
      lines = [];
      characters = 0;
    }
  }
  if (lines.length > 0) yield lines;
}

/** Reads a small row group with one request, a large one in windows of each column. */
async function reading(file: SourceFile, { chunks }: RowGroup): Promise<Read> {
  const start = Math.min(...chunks.map(({ from }) => from));
  const end = Math.max(...chunks.map(({ to }) => to));
  if (end - start > WINDOWS_BYTES / 2) return file.read;
  const whole = await file.read(start, end);
  return async (from, to) => whole.subarray(from - start, to - start);
}
