import { hasOddNumbers, parseExact } from "../../lib/rows/json.ts";

type Pieces = () => Iterable<{ bytes: Uint8Array }>;

const TURN_ROWS = 2000;
const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** Two readings: which columns there are, then the rows. A text is itself, everything else its JSON. */
export async function* csvOf(pieces: Pieces): AsyncGenerator<Uint8Array> {
  const columns = new Set<string>();
  for await (const rows of batchesOf(pieces())) for (const row of rows) for (const key in row) columns.add(key);
  const names = [...columns];
  yield encoder.encode(lineOf(names));
  for await (const rows of batchesOf(pieces()))
    yield encoder.encode(rows.map((row) => lineOf(names.map((name) => cellOf(row[name])))).join(""));
}

/** Others have their turn between two batches. */
async function* batchesOf(pieces: Iterable<{ bytes: Uint8Array }>): AsyncGenerator<Record<string, unknown>[]> {
  for (const { bytes } of pieces) {
    const lines = decoder.decode(bytes).split("\n");
    for (let at = 0; at < lines.length; at += TURN_ROWS) {
      const some = lines.slice(at, at + TURN_ROWS).filter((line) => line !== "");
      yield some.map((line) => (hasOddNumbers(line) ? parseExact(line) : JSON.parse(line)) as Record<string, unknown>);
      await new Promise(setImmediate);
    }
  }
}

const cellOf = (value: unknown): string =>
  value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value);

const lineOf = (cells: readonly string[]) => `${cells.map(quoted).join()}\r\n`;
const quoted = (cell: string) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
