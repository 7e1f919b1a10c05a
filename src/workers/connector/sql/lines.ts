/**
 * Writes values of a database as JSON text. Every digit that the server sent is written: no value passes through a
 * double.
 */
import { exceeds } from "../formats/file.ts";
import { SourceError } from "../types.ts";

/** Converts a value as the server wrote it to JSON text. */
export type ToJson = (text: string) => string;

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Exact. NaN and the infinities, which JSON lacks, become null. Leading zeros are removed. */
export const numberJson: ToJson = (text) => {
  if (NUMBER.test(text)) return text;
  const plain = text
    .replace(/^\+/, "")
    .replace(/^(-?)0+(?=\d)/, "$1")
    .replace(/^(-?)\./, "$10.")
    .replace(/\.(?=$|[eE])/, "");
  return NUMBER.test(plain) ? plain : "null";
};

/** Keeps the JSON as it is, on one line: line breaks in JSON are only between tokens. Other text becomes a string. */
export const embeddedJson: ToJson = (text) => {
  try {
    JSON.parse(text);
  } catch {
    return JSON.stringify(text);
  }
  return oneLine(text);
};

export const oneLine = (json: string) => (/[\n\r]/.test(json) ? json.replace(/[\n\r]+/g, " ") : json);

/** Rejects equal names: two such columns would be one field of the row. */
export function distinct(names: readonly string[]): string[] {
  const seen = new Set<string>();
  for (const name of names) {
    if (name === "") throw unusable("a column has no name. Name it with AS");
    if (seen.has(name)) throw unusable(`two columns are named ${name}. Rename one of them with AS`);
    seen.add(name);
  }
  return [...names];
}

const unusable = (why: string) => new SourceError("invalid_source", `db_query cannot be used: ${why}`, "/db_query");

/** Writes a row from the JSON texts of its values, in the order of `names`. */
export function rowWriter(names: readonly string[]): (values: readonly string[]) => string {
  const keys = names.map((name, i) => `${i === 0 ? "{" : ","}${JSON.stringify(name)}:`);
  return (values) => {
    let row = "";
    for (let i = 0; i < keys.length; i++) row += keys[i]! + values[i]!;
    return `${row}}`;
  };
}

export const tooLong = (row: number, limitBytes: number, bytes?: number) =>
  new SourceError(
    "invalid_rows",
    `Row ${row} ${bytes === undefined ? "" : `has ${bytes} bytes and `}is longer than ${limitBytes} bytes, the maximum length of a row (datasets.max_row_bytes)`,
  );

/** `row` counts from 1. */
export function checked(line: string, row: number, limitBytes: number): string {
  if (exceeds(line, limitBytes)) throw tooLong(row, limitBytes);
  return line;
}
