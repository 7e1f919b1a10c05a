import { SourceError } from "../types.ts";

/** One file of a source, in any store. */
export type SourceFile = {
  /** The name in messages: s3://bucket/key. */
  name: string;
  bytes: number;
  stream: (from: number) => AsyncIterable<Uint8Array>;
  /** Reads up to, but not including, `to`. */
  read: (from: number, to: number) => Promise<Uint8Array<ArrayBuffer>>;
};

/** A position in a file: after `row` rows. `byte` is the start of the next row, if it is known. */
export type RowPosition = { row: number; byte: number | null };
/** Some rows and the position after them. */
export type Piece = { lines: string[]; place: RowPosition };

export type FormatOptions = { rowBytes: number; from: RowPosition };

export const BEGINNING: RowPosition = { row: 0, byte: null };
/** A piece is yielded when it holds this many rows. */
export const PIECE_ROWS = 1000;
export const PIECE_CHARACTERS = 256 * 1024;

export const badRows = (file: Pick<SourceFile, "name">, why: string, cause?: unknown) =>
  new SourceError("invalid_rows", `${file.name}: ${why}`, null, cause === undefined ? undefined : { cause });

/** `length` counts characters of at most three bytes each. Only a text near the limit is measured exactly. */
export const exceeds = (text: string, limitBytes: number) =>
  text.length * 3 > limitBytes && (text.length > limitBytes || Buffer.byteLength(text) > limitBytes);

export const tooLong = (file: Pick<SourceFile, "name">, at: string, limitBytes: number) =>
  badRows(file, `${at} is longer than ${limitBytes} bytes, the maximum length of a row (datasets.max_row_bytes)`);
