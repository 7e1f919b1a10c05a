import { ambientEnv } from "../platform/config/config.ts";
import { aligned, tableLines } from "./text/table.ts";

/** Results go to standard output and notes about them to standard error, so that a pipe receives only the result. */
export const print = (text: string) => void process.stdout.write(`${text}\n`);
export const printJson = (value: unknown) => print(JSON.stringify(value));
export const note = (text: string) => void process.stderr.write(`${text}\n`);

/** `1 row`, `2 rows`. */
export const count = (n: number, noun: string) => `${n} ${noun}${n === 1 ? "" : "s"}`;

/** Rows as lines with aligned columns. */
export const columns = aligned;

/**
 * Prints a table. Without rows it prints `empty` as a note instead of a lone header. `full: false` shortens the ids at a
 * terminal: only for commands that take a short id.
 */
export function printTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  empty: string,
  { full }: { full?: boolean } = {},
) {
  if (rows.length === 0) return note(empty);
  const style = { width: terminalWidth(), color: Bun.enableANSIColors, full, nowMs: Date.now() };
  for (const line of tableLines(header, rows, style)) print(line);
}

/** Header → the text of an item. */
export type Columns<T> = Readonly<Record<string, (item: T) => string>>;

type Listing<T> = { columns: Columns<T>; empty: string; full?: boolean };

/** Prints all items of a list: as JSON in the form of the API, or as a table. */
export function printList<T>(json: boolean, items: readonly T[], { columns, empty, full }: Listing<T>) {
  if (json) return printJson({ object: "list", data: items, has_more: false });
  const rows = items.map((item) => Object.values(columns).map((textOf) => textOf(item)));
  printTable(Object.keys(columns), rows, empty, full === undefined ? {} : { full });
}

/** `result`: for standard output, such as the id of a new thing. `remark`: for people, on standard error. */
type Result = { result?: string | undefined; remark?: string | undefined };

/** Prints what a command did: as JSON, or in words. */
export function printResult(json: boolean, value: unknown, { result, remark }: Result) {
  if (json) return printJson(value);
  if (result !== undefined) print(result);
  if (remark !== undefined) note(remark);
}

/** Columns of the terminal. Undefined: the output goes to a file or a program. */
export function terminalWidth(): number | undefined {
  const { isTTY, columns: wide } = process.stdout;
  return isTTY ? Number(ambientEnv()["COLUMNS"]) || wide || 80 : undefined;
}

/** Replaces control characters, so that foreign text cannot control the terminal. Line breaks and tabs stay. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are replaced here
export const plain = (text: string) => text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "\ufffd");

const CODES = { green: 32, yellow: 33, red: 31, dim: 2, bold: 1 } as const;

/** Adds colour if standard output is a terminal and NO_COLOR is not set. */
export const paint = (color: keyof typeof CODES, text: string) =>
  process.stdout.isTTY && Bun.enableANSIColors ? `\x1b[${CODES[color]}m${text}\x1b[0m` : text;
