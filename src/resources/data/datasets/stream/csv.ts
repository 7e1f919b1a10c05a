import { hasOddNumbers, parseExact } from "../../../../lib/rows/json.ts";
import { csvCell, spreadsheetCell } from "../../../../lib/text/csv.ts";
import { takingTurns } from "../../../../lib/turns.ts";

/** `csv`: exact, for programs. `spreadsheet`: no cell is a formula. */
export type CsvForm = "csv" | "spreadsheet";
type Pieces = () => Iterable<{ bytes: Uint8Array }>;

const PIECE_CHARS = 1 << 18;
const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** Reads the rows twice: first to collect the columns, then to write them. Text stays text, other values become JSON. */
export async function* csvOf(pieces: Pieces, form: CsvForm, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const columns = new Set<string>();
  for await (const row of rowsOf(pieces(), signal)) for (const key in row) columns.add(key);
  const names = [...columns];
  const lineOf = form === "csv" ? exactLine : spreadsheetLine;
  let text = lineOf(names);
  for await (const row of rowsOf(pieces(), signal)) {
    text += lineOf(names.map((name) => cellOf(Object.hasOwn(row, name) ? row[name] : undefined)));
    if (text.length < PIECE_CHARS) continue;
    yield encoder.encode(text);
    text = "";
  }
  yield encoder.encode(text);
}

/** Yields to other work between two rows. */
async function* rowsOf(
  pieces: Iterable<{ bytes: Uint8Array }>,
  signal: AbortSignal,
): AsyncGenerator<Record<string, unknown>> {
  const turn = takingTurns();
  for (const { bytes } of pieces) {
    await turn();
    for (const line of decoder.decode(bytes).split("\n")) {
      if (line === "") continue;
      yield (hasOddNumbers(line) ? parseExact(line) : JSON.parse(line)) as Record<string, unknown>;
      await turn();
      signal.throwIfAborted(); // The first pass sends nothing, so only the signal shows that the client is gone.
    }
  }
}

const cellOf = (value: unknown): string =>
  value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value);

/** A row of one empty cell is quoted, because CSV readers skip blank lines. */
const exactLine = (cells: readonly string[]) =>
  cells.length === 1 && cells[0] === "" ? '""\r\n' : `${cells.map(csvCell).join()}\r\n`;
const spreadsheetLine = (cells: readonly string[]) => `${cells.map(spreadsheetCell).join()}\r\n`;
