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

const [QUOTE, COMMA, BACKSLASH, OPEN_LIST, CLOSE_LIST, OPEN, CLOSE] = [34, 44, 92, 91, 93, 123, 125];
const BOM = [0xef, 0xbb, 0xbf];
const isBlank = (byte: number) => byte === 32 || byte === 9 || byte === 10 || byte === 13;

/**
 * Reads one JSON array of objects, or objects one after the other with line breaks inside them. One object is in memory
 * at a time. The consumer of the rows parses them; here only their ends are searched.
 */
export async function* jsonRows(
  file: SourceFile,
  source: AsyncIterable<Uint8Array>,
  { rowBytes, from }: FormatOptions,
): AsyncGenerator<Piece> {
  const objects = new Objects(file, rowBytes);
  let lines: string[] = [];
  let characters = 0;
  let skip = from.row;
  let row = from.row;
  for await (const chunk of source) {
    for (const text of objects.push(chunk)) {
      if (skip > 0) {
        skip--;
        continue;
      }
      lines.push(text);
      row++;
      characters += text.length;
      if (lines.length < PIECE_ROWS && characters < PIECE_CHARACTERS) continue;
      yield { lines, place: { row, byte: null } };
      [lines, characters] = [[], 0];
    }
  }
  objects.end();
  if (lines.length > 0) yield { lines, place: { row, byte: null } };
}

class Objects {
  private isList: boolean | undefined; // unknown before the first character
  private isOver = false; // the list has ended
  private wantsComma = false;
  private depth = 0; // inside the present object
  private inString = false;
  private escaped = false;
  private parts: Uint8Array[] = []; // of the present object
  private bytes = 0;
  private count = 0;
  private bom = 0;

  constructor(
    private readonly file: SourceFile,
    private readonly rowBytes: number,
  ) {}

  *push(chunk: Uint8Array): Generator<string> {
    let start = 0; // of the present object in this chunk
    for (let at = 0; at < chunk.byteLength; at++) {
      const byte = chunk[at]!;
      if (this.depth === 0) {
        if (this.between(byte)) start = at;
        continue;
      }
      if (!this.closes(byte)) continue;
      this.keep(chunk.slice(start, at + 1));
      yield this.taken();
    }
    if (this.depth > 0) this.keep(chunk.slice(start)); // copied because the chunk's memory belongs to the stream
  }

  end() {
    if (this.depth > 0 || (this.isList && !this.isOver))
      throw badRows(this.file, `it is truncated after row ${this.count}: the JSON does not end`);
  }

  /** Takes a byte outside of objects. Returns true if an object begins. */
  private between(byte: number): boolean {
    if (isBlank(byte)) return false;
    if (this.isList === undefined && byte === BOM[this.bom]) {
      this.bom++;
      return false;
    }
    if (this.isList === undefined) {
      this.isList = byte === OPEN_LIST;
      if (this.isList) return false;
    }
    if (byte === OPEN && !this.isOver && !(this.isList && this.wantsComma)) {
      this.depth = 1;
      return true;
    }
    if (this.isList && !this.isOver && byte === COMMA && this.wantsComma) this.wantsComma = false;
    else if (this.isList && !this.isOver && byte === CLOSE_LIST) this.isOver = true;
    else throw badRows(this.file, this.misplaced(byte));
    return false;
  }

  private misplaced(byte: number): string {
    if (this.isOver) return `text follows the end of the list after row ${this.count}`;
    if (this.wantsComma || byte === COMMA) return `a comma is missing or misplaced after row ${this.count}`;
    return `row ${this.count + 1} is not a JSON object`;
  }

  /** Takes a byte of an object. Returns true if the object ends with it. */
  private closes(byte: number): boolean {
    if (this.escaped) this.escaped = false;
    else if (this.inString) {
      if (byte === BACKSLASH) this.escaped = true;
      else if (byte === QUOTE) this.inString = false;
    } else if (byte === QUOTE) this.inString = true;
    else if (byte === OPEN || byte === OPEN_LIST) this.depth++;
    else if (byte === CLOSE || byte === CLOSE_LIST) return --this.depth === 0;
    return false;
  }

  private keep(part: Uint8Array) {
    this.parts.push(part);
    this.bytes += part.byteLength;
    if (this.bytes > 4 * this.rowBytes) throw tooLong(this.file, `row ${this.count + 1}`, this.rowBytes);
  }

  /** Line breaks between the values become blanks. Inside a string they would be invalid JSON. */
  private taken(): string {
    const bytes = this.parts.length === 1 ? this.parts[0]! : Buffer.concat(this.parts);
    [this.parts, this.bytes, this.wantsComma] = [[], 0, true];
    this.count++;
    const text = this.decoded(bytes);
    const line = /[\r\n]/.test(text) ? this.compacted(text) : text;
    if (exceeds(line, this.rowBytes)) throw tooLong(this.file, `row ${this.count}`, this.rowBytes);
    return line;
  }

  private compacted(text: string): string {
    try {
      JSON.parse(text);
    } catch (cause) {
      throw badRows(this.file, `row ${this.count} is not valid JSON: ${(cause as Error).message}`, cause);
    }
    return text.replace(/[\r\n]\s*/g, " ");
  }

  private decoded(bytes: Uint8Array): string {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch (cause) {
      throw badRows(this.file, `row ${this.count} is not valid UTF-8`, cause);
    }
  }
}
