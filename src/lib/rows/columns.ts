/** Renames columns of a row. Other columns keep their names, and no column may replace another. */
import type { Row } from "./format.ts";

/** Column of the file → field of the row. */
export type ColumnMap = Readonly<Record<string, string>>;

/** Two columns would get the same name. */
export class ColumnClash extends Error {
  constructor(readonly column: string) {
    super(`two columns would be named ${column}. Choose another name for one of them`);
  }
}

export function renameColumns(names: readonly string[], map: ColumnMap): string[] {
  const renamed = names.map((name) => (Object.hasOwn(map, name) ? map[name]! : name));
  const seen = new Set<string>();
  for (const name of renamed) {
    if (seen.has(name)) throw new ColumnClash(name);
    seen.add(name);
  }
  return renamed;
}

export function renameRow(row: Row, map: ColumnMap): Row {
  const names = Object.keys(row);
  const targets = renameColumns(names, map);
  return Object.fromEntries(names.map((name, i) => [targets[i]!, row[name]]));
}

/** Makes `row` equal to `other`. Works for `__proto__` too, which an assignment would treat specially. */
export function replaceContent(row: Row, other: Row) {
  for (const name of Object.keys(row)) delete row[name];
  for (const [name, value] of Object.entries(other))
    Object.defineProperty(row, name, { value, enumerable: true, configurable: true, writable: true });
}

/** Reads a map from text: a JSON object, or pairs such as question=prompt,answer=completion. Throws SyntaxError. */
export function parseMap(text: string): unknown {
  if (text.trimStart().startsWith("{")) return JSON.parse(text);
  const pairs = text.split(",").map((pair) => /^([^=]+)=([^=]+)$/.exec(pair.trim()));
  if (pairs.some((pair) => pair === null)) throw new SyntaxError("not pairs");
  return Object.fromEntries(pairs.map((pair) => [pair![1]!.trim(), pair![2]!.trim()]));
}

export const MAP_RULE = "must be pairs such as question=prompt,answer=completion, or a JSON object of them";
