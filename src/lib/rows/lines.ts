import { fileFault } from "./file_kind.ts";
import { type Format, formatOf, isRow, type Row, rowFault } from "./format.ts";
import { isDoubtful, parseJson, UnkeepableError } from "./json.ts";
import { RowError } from "./row_error.ts";
import { LOOKED_AT_ROWS } from "./shape.ts";

export { RowError } from "./row_error.ts";

export type Piece = {
  /** Whole rows, each ended by one line feed: the original bytes without surrounding whitespace. */
  body: Uint8Array;
  rows: number;
};

type Options = {
  maxRowBytes: number;
  /** Undefined: the first row decides. */
  format: Format | undefined;
  /** Called for each row. Returns a replacement text, or "" for a row without content. */
  visit?: (row: Row, text: string, line: number) => string | undefined;
  /** Gets the rows at the beginning of the file before the first is visited. Invalid lines are not among them. */
  first?: (rows: Row[]) => void;
  /** Added to the message about a fault of the first row. */
  hint?: () => string;
};

const PIECE_BYTES = 1 << 17;
const CRUMBS = 1024; // small chunks are joined: each costs a hundred bytes of overhead
const AROUND_BYTES = 4; // bytes that do not count for the length: a byte order mark, a carriage return
const LF = 10;
const BOM = [0xef, 0xbb, 0xbf];
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

export type LineReader = {
  readonly format: Format | undefined;
  readonly rows: number;
  /** The reader takes ownership of the bytes. */
  push: (chunk: Uint8Array) => Piece[];
  /** The last line may lack its line feed. */
  end: () => Piece[];
};

/** Turns JSON lines into checked rows in constant memory: one piece and at most one row. Throws RowError. */
export function createLineReader({ maxRowBytes, format, visit, first, hint }: Options): LineReader {
  let waiting: Uint8Array[] = [];
  let waitingBytes = 0;
  let crumbs = 0; // chunks since the last join
  let sinceBreak = 0; // bytes after the last line feed
  let line = 0;
  let rows = 0;
  let begun = false;

  function push(chunk: Uint8Array): Piece[] {
    if (chunk.byteLength === 0) return [];
    waiting.push(chunk);
    waitingBytes += chunk.byteLength;
    if (++crumbs === CRUMBS) {
      waiting.push(Buffer.concat(waiting.splice(-CRUMBS)));
      crumbs = 0;
    }
    const last = chunk.lastIndexOf(LF);
    sinceBreak = last < 0 ? sinceBreak + chunk.byteLength : chunk.byteLength - last - 1;
    if (sinceBreak > maxRowBytes + AROUND_BYTES) {
      const before = take(waitingBytes - sinceBreak);
      line++;
      return before.concat(tooLong());
    }
    return waitingBytes - sinceBreak >= PIECE_BYTES ? take(waitingBytes - sinceBreak) : [];
  }

  const tooLong = (): never => {
    throw new RowError(line, `it is longer than ${maxRowBytes} bytes`);
  };

  function take(bytes: number): Piece[] {
    const all = waiting.length === 1 ? (waiting[0] as Uint8Array) : Buffer.concat(waiting);
    if (!begun) refuseOtherFiles(withoutBom(all));
    const rest = all.subarray(bytes);
    waiting = rest.byteLength > 0 ? [rest] : [];
    waitingBytes = rest.byteLength;
    crumbs = 0;
    const piece = check(begun ? all.subarray(0, bytes) : withoutBom(all.subarray(0, bytes)));
    begun ||= bytes > 0;
    return piece ? [piece] : [];
  }

  function refuseOtherFiles(start: Uint8Array) {
    const fault = fileFault(start);
    if (fault !== undefined) throw new RowError(1, fault);
  }

  function check(bytes: Uint8Array): Piece | undefined {
    const text = decode(bytes);
    const doubtful = isDoubtful(text);
    if (first && rows === 0) first(beginningOf(text));
    const rewritten: string[] = [];
    const before = rows;
    let verbatim = true;
    for (let at = 0; at < text.length; ) {
      const end = text.indexOf("\n", at);
      const rowText = text.slice(at, end < 0 ? text.length : end);
      at = end < 0 ? text.length : end + 1;
      line++;
      const plain = rowText.charCodeAt(0) === 123 && rowText.charCodeAt(rowText.length - 1) === 125; // { }
      const trimmed = plain ? rowText : trim(rowText);
      if (!plain || end < 0) verbatim = false;
      if (rowText.length * 3 > maxRowBytes && lengthOf(rowText) > maxRowBytes) tooLong();
      if (trimmed === "") continue;
      const other = checkRow(trimmed, doubtful);
      if (other !== undefined) verbatim = false;
      rewritten.push(other ?? trimmed);
      rows++;
    }
    if (rows === before) return undefined;
    return { body: verbatim ? bytes : encoder.encode(`${rewritten.join("\n")}\n`), rows: rows - before };
  }

  function checkRow(text: string, doubtful: boolean): string | undefined {
    let value: unknown;
    try {
      value = parseJson(text, doubtful);
    } catch (error) {
      const said = (error as Error).message.replace(/^JSON Parse error: /, "");
      throw new RowError(line, error instanceof UnkeepableError ? said : `it is not valid JSON: ${said}`);
    }
    if (!isRow(value)) throw new RowError(line, 'it must be a JSON object such as {"prompt": "…"}');
    const other = visit?.(value, text, line);
    if (other === "") return other; // there is nothing to check
    format ??= formatOf(value);
    const fault = rowFault(value, format);
    if (fault) throw new RowError(line, fault.message + (rows === 0 && hint ? hint() : ""), fault.field);
    return other;
  }

  function decode(bytes: Uint8Array): string {
    try {
      return decoder.decode(bytes);
    } catch {
      let at = line;
      for (let from = 0; from < bytes.byteLength; ) {
        const end = bytes.indexOf(LF, from);
        const one = bytes.subarray(from, end < 0 ? bytes.byteLength : end + 1);
        at++;
        if (!isUtf8(one)) throw new RowError(at, "it is not valid UTF-8");
        from += one.byteLength;
      }
      throw new RowError(at, "it is not valid UTF-8");
    }
  }

  return {
    get format() {
      return format;
    },
    get rows() {
      return rows;
    },
    push,
    end: () => (waitingBytes === 0 ? [] : take(waitingBytes)),
  };
}

function beginningOf(text: string): Row[] {
  const rows: Row[] = [];
  for (let at = 0; at < text.length && rows.length < LOOKED_AT_ROWS; ) {
    const end = text.indexOf("\n", at);
    const line = text.slice(at, end < 0 ? text.length : end);
    at += line.length + 1;
    try {
      const value = parseJson(line, false);
      if (isRow(value)) rows.push(value);
    } catch {
      // The check of this line reports it.
    }
  }
  return rows;
}

/** A regular expression would try each of a million blanks within a line as the beginning of its end. */
function trim(text: string): string {
  let [from, to] = [0, text.length];
  while (from < to && isBlank(text.charCodeAt(from))) from++;
  while (to > from && isBlank(text.charCodeAt(to - 1))) to--;
  return text.slice(from, to);
}

const lengthOf = (line: string) => encoder.encode(line.endsWith("\r") ? line.slice(0, -1) : line).byteLength;
const isBlank = (code: number) => code === 32 || code === 9 || code === 13;

function isUtf8(bytes: Uint8Array): boolean {
  try {
    decoder.decode(bytes);
    return true;
  } catch {
    return false;
  }
}

const withoutBom = (bytes: Uint8Array) => (BOM.every((byte, i) => bytes[i] === byte) ? bytes.subarray(3) : bytes);
