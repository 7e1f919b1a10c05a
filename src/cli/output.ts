/** Results go to standard output and notes about them to standard error, so that a pipe receives only the result. */
export const print = (text: string) => void process.stdout.write(`${text}\n`);
export const printJson = (value: unknown) => print(JSON.stringify(value));
export const note = (text: string) => void process.stderr.write(`${text}\n`);

/** `1 row`, `2 rows`. */
export const count = (n: number, noun: string) => `${n} ${noun}${n === 1 ? "" : "s"}`;

/** Rows as lines with aligned columns. */
export function columns(rows: readonly (readonly string[])[], gap = "  "): string[] {
  const widths: number[] = [];
  for (const row of rows)
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, Bun.stringWidth(cell));
  const pad = (cell: string, i: number) => cell + " ".repeat(widths[i]! - Bun.stringWidth(cell));
  return rows.map((row) => row.map(pad).join(gap).trimEnd());
}

/** Prints a table. Without rows it prints `empty` as a note instead of a lone header. */
export function printTable(header: readonly string[], rows: readonly (readonly string[])[], empty: string) {
  if (rows.length === 0) return note(empty);
  for (const line of columns([header, ...rows])) print(line);
}

/** Replaces control characters, so that foreign text cannot control the terminal. Line breaks and tabs stay. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are replaced here
export const plain = (text: string) => text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "\ufffd");

const CODES = { green: 32, yellow: 33, red: 31, dim: 2, bold: 1 } as const;

/** Adds colour if standard output is a terminal and NO_COLOR is not set. */
export const paint = (color: keyof typeof CODES, text: string) =>
  process.stdout.isTTY && Bun.enableANSIColors ? `\x1b[${CODES[color]}m${text}\x1b[0m` : text;
