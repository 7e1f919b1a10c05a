/**
 * Yields the members of one list in a JSON object as texts, while the object arrives. An answer may have any size;
 * memory holds one member and the rest of the object. It checks only what it needs to find the ends of members. The
 * parser of a member finds its other errors.
 */
import { SourceError } from "../types.ts";

const OUTSIDE_CHARACTERS = 4_000_000;
/** Marks outside a string, and inside one. */
const MARKS = /["[\]{},]/g;
const STRING_ENDS = /["\\]/g;

class Cutter {
  private depth = 0;
  private inString = false;
  private escaped = false;
  /** Inside the list: the current member so far. Elsewhere: everything so far. */
  private member = "";
  private outside = "";
  private inList = false;
  private cut: string[] = [];
  private readonly announced: RegExp;

  constructor(
    key: string,
    private readonly limit: number,
  ) {
    this.announced = new RegExp(`[{,]\\s*"${key}"\\s*:\\s*$`);
  }

  push(text: string): string[] {
    let at = 0; // everything before this index is consumed
    let scanFrom = 0;
    while (scanFrom < text.length) {
      if (this.escaped) {
        this.escaped = false;
        scanFrom++;
        continue;
      }
      const pattern = this.inString ? STRING_ENDS : MARKS;
      pattern.lastIndex = scanFrom;
      const match = pattern.exec(text);
      if (!match) break;
      scanFrom = match.index + 1;
      if (this.inString || match[0] === '"') this.quote(match[0]);
      else at = this.mark(text, at, match.index);
    }
    this.take(text.slice(at));
    const { cut } = this;
    this.cut = [];
    return cut;
  }

  private quote(mark: string) {
    if (mark === "\\") this.escaped = true;
    else this.inString = !this.inString;
  }

  /** Returns the index before which everything is consumed. */
  private mark(text: string, at: number, index: number): number {
    const mark = text[index];
    if (this.inList && this.depth === 2 && (mark === "," || mark === "]")) {
      this.take(text.slice(at, index));
      this.finish();
      if (mark === ",") return index + 1;
      this.inList = false;
      this.depth = 1;
      return index;
    }
    if (mark === "[" || mark === "{") {
      this.depth++;
      if (mark === "[" && this.depth === 2 && !this.inList) {
        const before = text.slice(at, index);
        if (!this.announced.test(this.outside.slice(-200) + before)) return at;
        this.take(`${before}[`);
        this.inList = true;
        return index + 1;
      }
    } else if (mark !== ",") this.depth--;
    return at;
  }

  private take(text: string) {
    if (this.inList) this.member += text;
    else this.outside += text;
    if (this.member.length > this.limit || this.outside.length > OUTSIDE_CHARACTERS)
      throw new SourceError(
        "invalid_rows",
        `A row is longer than ${this.limit} bytes, the maximum length of a row (datasets.max_row_bytes)`,
      );
  }

  private finish() {
    const member = this.member.trim();
    if (member !== "") this.cut.push(member);
    this.member = "";
  }

  /** Returns the object with an empty list. */
  rest(): unknown {
    return JSON.parse(this.outside);
  }
}

/** Yields some members at a time and returns the object without them. */
export async function* membersOf(
  body: AsyncIterable<Uint8Array>,
  key: string,
  limit: number,
): AsyncGenerator<string[], unknown> {
  const cutter = new Cutter(key, limit);
  const decoder = new TextDecoder();
  for await (const part of body) {
    const members = cutter.push(decoder.decode(part, { stream: true }));
    if (members.length > 0) yield members;
  }
  return cutter.rest();
}
