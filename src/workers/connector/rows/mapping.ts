/** Renames source columns to target columns. Other columns keep their names, and no column may replace another. */
import type { Row } from "../../../lib/rows/format.ts";
import { hasOddNumbers, parseExact } from "../../../lib/rows/json.ts";
import { SourceError } from "../types.ts";

export type Mapping = Record<string, string>;

export function renamedColumns(names: readonly string[], mapping: Mapping = {}): string[] {
  const renamed = names.map((name) => (Object.hasOwn(mapping, name) ? mapping[name]! : name));
  const seen = new Set<string>();
  for (const name of renamed) {
    if (seen.has(name))
      throw new SourceError(
        "invalid_rows",
        `column_mapping produces two columns named ${name}. Choose another name for one of them`,
        "/hub_config/column_mapping",
      );
    seen.add(name);
  }
  return renamed;
}

/** For the reader of rows: changes `row`, so that the checked row is the stored row, and returns its text. */
export function renaming(mapping: Mapping = {}): ((row: Row, text: string) => string) | undefined {
  if (Object.keys(mapping).length === 0) return undefined;
  return (row, text) => {
    const exact = hasOddNumbers(text) ? (parseExact(text) as Row) : { ...row };
    const names = Object.keys(exact);
    const targets = renamedColumns(names, mapping);
    const renamed = Object.fromEntries(names.map((name, i) => [targets[i]!, exact[name]]));
    for (const name of Object.keys(row)) delete row[name];
    for (const [name, value] of Object.entries(renamed)) define(row, name, value);
    return JSON.stringify(renamed);
  };
}

/** Also works for `__proto__`, which an assignment would treat specially. */
const define = (row: Row, name: string, value: unknown) =>
  Object.defineProperty(row, name, { value, enumerable: true, configurable: true, writable: true });
