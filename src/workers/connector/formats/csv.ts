import { CsvError, Parser } from "csv-parse";
import {
  badRows,
  exceeds,
  type FormatOptions,
  PIECE_CHARACTERS,
  PIECE_ROWS,
  type Piece,
  type SourceFile,
  tooLong,
} from "./file.ts";

type Options = FormatOptions & { delimiter: string; onHeader?: (names: string[]) => void };

const SLICE_BYTES = 64 * 1024; // parsed at once; small enough to keep the event loop responsive

/**
 * RFC 4180 with a header row. Every cell is a string, because a number may be a postcode. An empty cell is the empty
 * string. A column without a name is named after its position.
 */
export async function* csvRows(
  file: SourceFile,
  source: AsyncIterable<Uint8Array>,
  options: Options,
): AsyncGenerator<Piece> {
  const rows = new Rows(file, options);
  const parser = new Parser({
    bom: true,
    delimiter: options.delimiter,
    record_delimiter: ["\r\n", "\n", "\r"],
    relax_column_count: true, // the check below has a better message
    skip_empty_lines: true,
    max_record_size: options.rowBytes,
    on_record: (cells: string[], { lines }) => {
      rows.take(cells, lines);
      return null; // the stream's own reader gets nothing
    },
  });
  const write = parserInput(file, parser);
  const utf8 = new TextDecoder("utf-8", { fatal: true });
  for await (const chunk of source)
    for (let at = 0; at < chunk.byteLength; at += SLICE_BYTES) {
      const slice = chunk.subarray(at, at + SLICE_BYTES);
      checkText(file, utf8, slice);
      await write(slice);
      rows.mayGrow(slice.byteLength);
      yield* rows.pieces(false);
    }
  checkText(file, utf8, undefined);
  await write(undefined);
  yield* rows.pieces(true);
}

class Rows {
  private names: string[] = []; // JSON texts that precede each value
  private hasHeader = false;
  private lines: string[] = [];
  private characters = 0;
  private skip: number;
  private row: number;
  private taken = 0;
  private unended = 0; // bytes read since the last end of a record

  constructor(
    private readonly file: SourceFile,
    private readonly options: Options,
  ) {
    this.skip = options.from.row;
    this.row = options.from.row;
  }

  take(cells: string[], line: number) {
    this.taken++;
    if (!this.hasHeader) return this.header(cells);
    const { names } = this;
    if (cells.length !== names.length)
      throw badRows(this.file, `line ${line} has ${cells.length} cells, but the header has ${names.length}`);
    if (this.skip > 0) {
      this.skip--;
      return;
    }
    let text = "";
    for (let i = 0; i < names.length; i++) text += names[i]! + JSON.stringify(cells[i]);
    if (exceeds(text, this.options.rowBytes)) throw tooLong(this.file, `line ${line}`, this.options.rowBytes);
    this.lines.push(`${text}}`);
    this.characters += text.length;
  }

  /** An unclosed record must not fill the memory, even if its cells are empty. */
  mayGrow(sliceBytes: number) {
    this.unended = this.taken > 0 ? 0 : this.unended + sliceBytes;
    this.taken = 0;
    if (this.unended > this.options.rowBytes)
      throw tooLong(this.file, `a row after row ${this.row}`, this.options.rowBytes);
  }

  private header(cells: string[]) {
    const names = cells.map((cell, i) => (cell.trim() === "" ? `column_${i + 1}` : cell));
    const seen = new Set<string>();
    const twin = names.find((name) => seen.size === seen.add(name).size);
    if (twin !== undefined)
      throw badRows(this.file, `two columns of the header are named ${JSON.stringify(twin)}. Rename one of them`);
    this.hasHeader = true;
    this.names = names.map((name, i) => `${i === 0 ? "{" : ","}${JSON.stringify(name)}:`);
    this.options.onHeader?.(names);
  }

  *pieces(last: boolean): Generator<Piece> {
    if (this.lines.length === 0) return;
    if (!last && this.lines.length < PIECE_ROWS && this.characters < PIECE_CHARACTERS) return;
    const { lines } = this;
    this.row += lines.length;
    this.lines = [];
    this.characters = 0;
    yield { lines, place: { row: this.row, byte: null } };
  }
}

/** Returns a function that passes a slice to the parser; undefined means the end. */
function parserInput(file: SourceFile, parser: Parser) {
  parser.on("error", () => {}); // thrown below
  parser.resume();
  return (slice: Uint8Array | undefined) =>
    new Promise<void>((done, fail) => {
      const told = (error?: Error | null) => (error ? fail(explained(file, error)) : done());
      if (slice) parser.write(slice, told);
      else parser.end(told);
    });
}

const explained = (file: SourceFile, error: Error) =>
  error instanceof CsvError ? badRows(file, `invalid CSV: ${error.message}`, error) : error;

function checkText(file: SourceFile, utf8: TextDecoder, slice: Uint8Array | undefined) {
  try {
    utf8.decode(slice, { stream: slice !== undefined });
  } catch (cause) {
    throw badRows(file, "it is not valid UTF-8. Save it as UTF-8", cause);
  }
}
