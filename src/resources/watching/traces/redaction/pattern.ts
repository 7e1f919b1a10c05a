/**
 * A subset of regular expressions that an automaton can run in linear time: characters, classes, groups, alternatives,
 * repetitions, `\b`. No backreferences, no lookaround, no anchors. Characters are UTF-16 code units.
 */

/** Ranges of code units, both ends included. */
export type Ranges = readonly (readonly [number, number])[];

export type Pattern =
  | { kind: "set"; ranges: Ranges }
  | { kind: "sequence"; parts: readonly Pattern[] }
  | { kind: "choice"; parts: readonly Pattern[] }
  | { kind: "repeat"; part: Pattern; min: number; max: number }
  | { kind: "boundary"; wanted: boolean };

/** A pattern that this subset does not have. The message continues the sentence "the pattern …". */
export class PatternError extends Error {
  override name = "PatternError";
}

export const MAX_PATTERN_LENGTH = 300;
const MAX_REPEAT = 500;
const MAX_DEPTH = 30;
const LAST = 0xffff;
const unit = (text: string) => text.charCodeAt(0);
const range = (a: string, b: string) => [unit(a), unit(b)] as const;

const DIGIT: Ranges = [range("0", "9")];
export const WORD: Ranges = [range("0", "9"), range("A", "Z"), range("_", "_"), range("a", "z")];
const SPACE: Ranges = [
  [9, 13],
  [32, 32],
  [0xa0, 0xa0],
  [0x2028, 0x2029],
  [0xfeff, 0xfeff],
];
const NEWLINE: Ranges = [
  [10, 10],
  [13, 13],
  [0x2028, 0x2029],
];

export function complement(ranges: Ranges): Ranges {
  const found: [number, number][] = [];
  let from = 0;
  for (const [low, high] of ranges.toSorted((a, b) => a[0] - b[0])) {
    if (low > from) found.push([from, low - 1]);
    from = Math.max(from, high + 1);
  }
  if (from <= LAST) found.push([from, LAST]);
  return found;
}

const CLASSES: Readonly<Record<string, Ranges>> = {
  d: DIGIT,
  D: complement(DIGIT),
  w: WORD,
  W: complement(WORD),
  s: SPACE,
  S: complement(SPACE),
};
const CONTROLS: Readonly<Record<string, number>> = { n: 10, r: 13, t: 9, f: 12, v: 11 };

/** `(?i)` at the start ignores the case of ASCII letters. */
export function parsePattern(source: string): Pattern {
  if (source.length > MAX_PATTERN_LENGTH) throw new PatternError(`is longer than ${MAX_PATTERN_LENGTH} characters`);
  const ignoreCase = source.startsWith("(?i)");
  const parser = new Parser(ignoreCase ? source.slice(4) : source, ignoreCase);
  const pattern = parser.choice(0);
  parser.mustEnd();
  if (matchesEmpty(pattern)) throw new PatternError("matches the empty text: make a part of it required");
  return pattern;
}

function matchesEmpty(pattern: Pattern): boolean {
  if (pattern.kind === "set") return false;
  if (pattern.kind === "boundary") return true;
  if (pattern.kind === "repeat") return pattern.min === 0 || matchesEmpty(pattern.part);
  return pattern.kind === "sequence" ? pattern.parts.every(matchesEmpty) : pattern.parts.some(matchesEmpty);
}

class Parser {
  #at = 0;
  constructor(
    readonly source: string,
    readonly ignoreCase: boolean,
  ) {}

  mustEnd() {
    if (this.#at < this.source.length) throw new PatternError("has a ) without a (");
  }

  choice(depth: number): Pattern {
    if (depth > MAX_DEPTH) throw new PatternError(`has more than ${MAX_DEPTH} groups inside each other`);
    const parts = [this.#sequence(depth)];
    while (this.#take("|")) parts.push(this.#sequence(depth));
    return parts.length === 1 ? (parts[0] as Pattern) : { kind: "choice", parts };
  }

  #sequence(depth: number): Pattern {
    const parts: Pattern[] = [];
    while (this.#at < this.source.length && !"|)".includes(this.#peek())) parts.push(this.#repeated(depth));
    return { kind: "sequence", parts };
  }

  #repeated(depth: number): Pattern {
    let part = this.#atom(depth);
    for (;;) {
      const times = this.#times();
      if (!times) return part;
      if (part.kind === "boundary") throw new PatternError("repeats \\b: remove the repetition");
      this.#take("?"); // lazy: the same texts match
      part = { kind: "repeat", part, ...times };
    }
  }

  #times(): { min: number; max: number } | undefined {
    if (this.#take("*")) return { min: 0, max: Number.POSITIVE_INFINITY };
    if (this.#take("+")) return { min: 1, max: Number.POSITIVE_INFINITY };
    if (this.#take("?")) return { min: 0, max: 1 };
    const braces = /^\{(\d{1,4})(,(\d{0,4}))?\}/.exec(this.source.slice(this.#at, this.#at + 12));
    if (!braces) return undefined;
    this.#at += braces[0].length;
    const min = Number(braces[1]);
    const max = braces[2] === undefined ? min : braces[3] ? Number(braces[3]) : Number.POSITIVE_INFINITY;
    if (min > max) throw new PatternError(`has a repetition ${braces[0]} whose numbers are out of order`);
    if (min > MAX_REPEAT || (max !== Number.POSITIVE_INFINITY && max > MAX_REPEAT))
      throw new PatternError(`repeats more than ${MAX_REPEAT} times`);
    return { min, max };
  }

  #atom(depth: number): Pattern {
    const char = this.#next();
    if (char === "(") return this.#group(depth);
    if (char === "[") return { kind: "set", ranges: this.#fold(this.#class()) };
    if (char === ".") return { kind: "set", ranges: complement(NEWLINE) };
    if (char === "^" || char === "$") throw new PatternError(`uses ${char}: patterns match anywhere, so remove it`);
    if (char === "*" || char === "+" || char === "?") throw new PatternError(`has a ${char} with nothing before it`);
    if (char !== "\\") return this.#literal(unit(char));
    if (this.#take("b")) return { kind: "boundary", wanted: true };
    if (this.#take("B")) return { kind: "boundary", wanted: false };
    const escaped = this.#escape();
    return typeof escaped === "number" ? this.#literal(escaped) : { kind: "set", ranges: escaped };
  }

  #group(depth: number): Pattern {
    if (this.#take("?") && !this.#take(":"))
      throw new PatternError("uses lookaround or a named group: only ( ) and (?: ) are supported");
    const inner = this.choice(depth + 1);
    if (!this.#take(")")) throw new PatternError("has a ( without a )");
    return inner;
  }

  #class(): Ranges {
    const negated = this.#take("^");
    const found: (readonly [number, number])[] = [];
    for (let first = true; first || this.#peek() !== "]"; first = false) {
      const low = this.#member();
      if (typeof low !== "number") {
        found.push(...low);
        continue;
      }
      const isRange = this.#peek() === "-" && this.source[this.#at + 1] !== "]";
      if (isRange) this.#at++;
      const high = isRange ? this.#member() : low;
      if (typeof high !== "number" || high < low) throw new PatternError("has a range in [ ] that is out of order");
      found.push([low, high]);
    }
    this.#at++;
    const folded = this.#fold(found);
    return negated ? complement(folded) : folded;
  }

  #member(): number | Ranges {
    const char = this.#next();
    if (char !== "\\") return unit(char);
    return this.#take("b") ? 8 : this.#escape();
  }

  /** After a backslash. */
  #escape(): number | Ranges {
    const char = this.#next();
    const known = CLASSES[char] ?? CONTROLS[char];
    if (known !== undefined) return known;
    const digits = { x: 2, u: 4 }[char];
    if (digits !== undefined) {
      const hex = this.source.slice(this.#at, this.#at + digits);
      if (hex.length !== digits || !/^[0-9a-f]+$/i.test(hex))
        throw new PatternError(`has a \\${char} without ${digits} hex digits`);
      this.#at += digits;
      return Number.parseInt(hex, 16);
    }
    if (/[0-9A-Za-z]/.test(char)) throw new PatternError(`uses \\${char}, which is not supported`);
    return unit(char);
  }

  #literal(code: number): Pattern {
    return { kind: "set", ranges: this.#fold([[code, code]]) };
  }

  #fold(ranges: Ranges): Ranges {
    if (!this.ignoreCase) return ranges;
    const added: [number, number][] = [];
    for (const [low, high] of ranges)
      for (const [[from, to], shift] of [
        [range("a", "z"), -32],
        [range("A", "Z"), 32],
      ] as const)
        if (low <= to && high >= from) added.push([Math.max(low, from) + shift, Math.min(high, to) + shift]);
    return [...ranges, ...added];
  }

  #peek(): string {
    if (this.#at >= this.source.length) throw new PatternError("ends in the middle of a [ ]");
    return this.source[this.#at] as string;
  }

  #next(): string {
    const char = this.source[this.#at++];
    if (char === undefined) throw new PatternError("ends too early: a \\, ( or [ is not complete");
    return char;
  }

  #take(char: string): boolean {
    if (this.source[this.#at] !== char) return false;
    this.#at++;
    return true;
  }
}
