/** Results go to standard output, words about them to standard error: a pipe gets only what was asked for. */
export const print = (text: string) => void process.stdout.write(`${text}\n`);
export const printJson = (value: unknown) => print(JSON.stringify(value));
export const note = (text: string) => void process.stderr.write(`${text}\n`);

/** Rows as lines with aligned columns. */
export function columns(rows: readonly (readonly string[])[], gap = "  "): string[] {
  const widths: number[] = [];
  for (const row of rows)
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, Bun.stringWidth(cell));
  const pad = (cell: string, i: number) => cell + " ".repeat(widths[i]! - Bun.stringWidth(cell));
  return rows.map((row) => row.map(pad).join(gap).trimEnd());
}

/** A table for people; an empty one says so instead of showing a lone header. */
export function printTable(header: readonly string[], rows: readonly (readonly string[])[], empty: string) {
  if (rows.length === 0) return note(empty);
  for (const line of columns([header, ...rows])) print(line);
}

/** Words of other people must not steer the terminal. Lines and tabs stay. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is taken out
export const plain = (text: string) => text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "\ufffd");

const CODES = { green: 32, yellow: 33, red: 31, dim: 2, bold: 1 } as const;

/** Colour only where a terminal shows it and nobody asked for none (NO_COLOR). */
export const paint = (color: keyof typeof CODES, text: string) =>
  process.stdout.isTTY && Bun.enableANSIColors ? `\x1b[${CODES[color]}m${text}\x1b[0m` : text;
