import { SourceError } from "../types.ts";

/** One file of a source, wherever it lies. */
export type SourceFile = {
  /** For messages: s3://bucket/key. */
  name: string;
  bytes: number;
  stream: (from: number) => AsyncIterable<Uint8Array>;
  /** Up to, not including, `to`. */
  read: (from: number, to: number) => Promise<Uint8Array<ArrayBuffer>>;
};

/** Where in a file to begin: after so many rows. `byte` is where the next one begins, if that is known. */
export type Place = { row: number; byte: number | null };
/** Some rows and the place after them. */
export type Piece = { lines: string[]; place: Place };

export type FormatOptions = { rowBytes: number; from: Place };

export const BEGINNING: Place = { row: 0, byte: null };
/** A piece is handed on when it holds this much. */
export const PIECE_ROWS = 1000;
export const PIECE_CHARACTERS = 256 * 1024;

export const badRows = (file: Pick<SourceFile, "name">, why: string, cause?: unknown) =>
  new SourceError("invalid_rows", `${file.name}: ${why}`, null, cause === undefined ? undefined : { cause });

/** `length` is in characters, which are at most three bytes each; only a text near the limit is measured exactly. */
export const exceeds = (text: string, limitBytes: number) =>
  text.length * 3 > limitBytes && (text.length > limitBytes || Buffer.byteLength(text) > limitBytes);

export const tooLong = (file: Pick<SourceFile, "name">, at: string, limitBytes: number) =>
  badRows(file, `${at} is longer than ${limitBytes} bytes, the longest row allowed (datasets.max_row_bytes)`);
