/**
 * Parses the part of the syntax of regular expressions that can be matched in linear time. Look-around and back
 * references are errors, because they need backtracking.
 */
import {
  COMMON_SPACE,
  complement,
  DIGIT,
  LINE_END,
  type Ranges,
  SPACE,
  WORD,
  withAllCases,
  withAsciiCases,
} from "./ranges.ts";

export type Assertion = "start" | "end" | "word" | "not_word";

export type PatternNode =
  | { type: "set"; ranges: Ranges }
  | { type: "sequence"; parts: readonly PatternNode[] }
  | { type: "choice"; parts: readonly PatternNode[] }
  | { type: "repeat"; node: PatternNode; min: number; max: number }
  | { type: "assert"; kind: Assertion };

/** The message continues the sentence "the pattern …". */
export class PatternError extends Error {
  override name = "PatternError";
}

/** Two fields of the API take patterns. Where they read the same text differently, stored patterns keep their meaning. */
export type Dialect = {
  /** A character is a UTF-16 code unit: an emoji counts as two. Otherwise it is a code point. */
  isByCodeUnit: boolean;
  /** `\s` */
  space: Ranges;
  /** `[]a]` is a class of two characters. Otherwise `[]` is the class of none, and `[^]` that of all. */
  isBracketFirst: boolean;
  /** A pattern may match the empty text. */
  mayBeEmpty: boolean;
};
export const EVALUATORS: Dialect = { isByCodeUnit: false, space: SPACE, isBracketFirst: false, mayBeEmpty: true };
export const REDACTION: Dialect = { isByCodeUnit: true, space: COMMON_SPACE, isBracketFirst: true, mayBeEmpty: false };

const MAX_LENGTH = 2_000;
const MAX_DEPTH = 100;
const MAX_REPEAT = 1_000;
const CONTROLS: Readonly<Record<string, number>> = { n: 10, r: 13, t: 9, f: 12, v: 11, "0": 0 };
const IGNORE_CASE = "(?i)";

/** `(?i)` at the start ignores the case of the letters a to z, and `ignoreCase` that of all letters. */
export function parsePattern(source: string, dialect: Dialect, ignoreCase = false): PatternNode {
  if (source.length > MAX_LENGTH) throw new PatternError(`is longer than ${MAX_LENGTH} characters`);
  const isMarked = source.startsWith(IGNORE_CASE);
  const fold = ignoreCase ? withAllCases : isMarked ? withAsciiCases : (ranges: Ranges) => ranges;
  const node = new Parser(isMarked ? source.slice(IGNORE_CASE.length) : source, dialect, fold).whole();
  if (!dialect.mayBeEmpty && matchesEmpty(node))
    throw new PatternError("matches the empty text: make a part of it required");
  return node;
}

function matchesEmpty(node: PatternNode): boolean {
  if (node.type === "set") return false;
  if (node.type === "assert") return true;
  if (node.type === "repeat") return node.min === 0 || matchesEmpty(node.node);
  return node.type === "sequence" ? node.parts.every(matchesEmpty) : node.parts.some(matchesEmpty);
}

class Parser {
  readonly #characters: string[];
  readonly #dialect: Dialect;
  readonly #classes: Readonly<Record<string, Ranges>>;
  readonly #fold: (ranges: Ranges) => Ranges;
  #at = 0;

  constructor(source: string, dialect: Dialect, fold: (ranges: Ranges) => Ranges) {
    this.#characters = dialect.isByCodeUnit ? source.split("") : [...source];
    this.#dialect = dialect;
    this.#classes = { d: DIGIT, w: WORD, s: dialect.space };
    this.#fold = fold;
  }

  whole(): PatternNode {
    const node = this.#choice(0);
    if (!this.#isAtEnd) throw new PatternError("has a ) without a (");
    return node;
  }

  get #isAtEnd(): boolean {
    return this.#at >= this.#characters.length;
  }

  #choice(depth: number): PatternNode {
    if (depth > MAX_DEPTH) throw new PatternError(`has more than ${MAX_DEPTH} groups inside each other`);
    const parts = [this.#sequence(depth)];
    while (this.#takes("|")) parts.push(this.#sequence(depth));
    return parts.length === 1 ? parts[0]! : { type: "choice", parts };
  }

  #sequence(depth: number): PatternNode {
    const parts: PatternNode[] = [];
    while (!this.#isAtEnd && this.#peek() !== "|" && this.#peek() !== ")") parts.push(this.#repeated(depth));
    return { type: "sequence", parts };
  }

  #repeated(depth: number): PatternNode {
    let node = this.#atom(depth);
    for (;;) {
      const times = this.#times();
      if (!times) return node;
      if (node.type === "assert") throw new PatternError("repeats ^, $ or \\b, which has no meaning");
      this.#takes("?"); // lazy: the same texts match
      node = { type: "repeat", node, ...times };
    }
  }

  #times(): { min: number; max: number } | undefined {
    if (this.#takes("*")) return { min: 0, max: Number.POSITIVE_INFINITY };
    if (this.#takes("+")) return { min: 1, max: Number.POSITIVE_INFINITY };
    if (this.#takes("?")) return { min: 0, max: 1 };
    const [whole, low, comma, high] = /^\{(\d{1,4})(,(\d{0,4}))?\}/.exec(this.#ahead(12)) ?? [];
    if (whole === undefined) return undefined;
    this.#at += whole.length;
    const min = Number(low);
    const max = comma === undefined ? min : high ? Number(high) : Number.POSITIVE_INFINITY;
    if (max < min) throw new PatternError(`has ${whole}, whose numbers are out of order`);
    if (min > MAX_REPEAT || (max > MAX_REPEAT && Number.isFinite(max)))
      throw new PatternError(`has ${whole}, which repeats more than ${MAX_REPEAT} times`);
    return { min, max };
  }

  #atom(depth: number): PatternNode {
    const character = this.#next();
    if (character === "(") return this.#group(depth);
    if (character === "[") return { type: "set", ranges: this.#class() };
    if (character === ".") return { type: "set", ranges: complement(LINE_END) };
    if (character === "^") return { type: "assert", kind: "start" };
    if (character === "$") return { type: "assert", kind: "end" };
    if (character === "\\") return this.#escape();
    if ("*+?".includes(character)) throw new PatternError(`has a ${character} with nothing before it to repeat`);
    return this.#literal(character.codePointAt(0)!);
  }

  #literal(character: number): PatternNode {
    return { type: "set", ranges: this.#fold([[character, character]]) };
  }

  #group(depth: number): PatternNode {
    if (this.#takes("?")) {
      const [name] = /^(:|<[A-Za-z_]\w{0,63}>)/.exec(this.#ahead(80)) ?? [];
      if (name === undefined)
        throw new PatternError(
          "has a (?…) group that is not supported: only (?:…), (?<name>…) and (?i) at the start are. Lookaround is not",
        );
      this.#at += name.length;
    }
    const node = this.#choice(depth + 1);
    if (!this.#takes(")")) throw new PatternError("has a ( without a )");
    return node;
  }

  #escape(): PatternNode {
    if (this.#takes("b")) return { type: "assert", kind: "word" };
    if (this.#takes("B")) return { type: "assert", kind: "not_word" };
    const escaped = this.#escaped();
    return typeof escaped === "number" ? this.#literal(escaped) : { type: "set", ranges: escaped };
  }

  /** The character after a backslash, or a class such as \d. */
  #escaped(): number | Ranges {
    const letter = this.#next();
    const ranges = this.#classes[letter.toLowerCase()];
    if (ranges) return letter === letter.toLowerCase() ? ranges : complement(ranges);
    if (letter === "x" || letter === "u") return this.#hex(letter);
    if (Object.hasOwn(CONTROLS, letter)) return CONTROLS[letter]!;
    if (/[1-9k]/.test(letter)) throw new PatternError(`uses \\${letter}, a back reference, which is not supported`);
    if (/[A-Za-z]/.test(letter)) throw new PatternError(`uses \\${letter}, which is not supported`);
    return letter.codePointAt(0)!;
  }

  #hex(letter: string): number {
    const form = letter === "x" ? /^([\da-f]{2})/i : /^(?:([\da-f]{4})|\{([\da-f]{1,6})\})/i;
    const [whole, plain, braced] = form.exec(this.#ahead(8)) ?? [];
    const codePoint = Number.parseInt(plain ?? braced ?? "", 16);
    if (whole === undefined || codePoint > 0x10ffff)
      throw new PatternError(`has a \\${letter} without ${letter === "x" ? "two" : "four"} hexadecimal digits`);
    this.#at += whole.length;
    if (codePoint <= 0xffff || !this.#dialect.isByCodeUnit) return codePoint;
    const [high = "", low = ""] = String.fromCodePoint(codePoint).split("");
    this.#characters.splice(this.#at, 0, low); // as if both units were written
    return high.charCodeAt(0);
  }

  #class(): Ranges {
    const isNegated = this.#takes("^");
    const ranges: (readonly [number, number])[] = [];
    for (let isFirst = this.#dialect.isBracketFirst; isFirst || !this.#takes("]"); isFirst = false)
      ranges.push(...this.#member());
    return isNegated ? complement(ranges) : ranges;
  }

  #member(): Ranges {
    const low = this.#classPart();
    if (typeof low !== "number") return low;
    if (this.#peek() !== "-" || this.#characters[this.#at + 1] === "]") return this.#fold([[low, low]]);
    this.#at++;
    const high = this.#classPart();
    if (typeof high !== "number" || high < low) throw new PatternError("has a range in […] that is out of order");
    return this.#fold([[low, high]]);
  }

  #classPart(): number | Ranges {
    if (this.#isAtEnd) throw new PatternError("has a [ without a ]");
    const character = this.#next();
    if (character !== "\\") return character.codePointAt(0)!;
    if (this.#takes("b")) return 8; // a backspace, as in JavaScript
    return this.#escaped();
  }

  #ahead(length: number): string {
    return this.#characters.slice(this.#at, this.#at + length).join("");
  }

  #peek(): string | undefined {
    return this.#characters[this.#at];
  }

  #next(): string {
    const character = this.#characters[this.#at++];
    if (character === undefined) throw new PatternError("ends with a \\");
    return character;
  }

  #takes(character: string): boolean {
    if (this.#peek() !== character) return false;
    this.#at++;
    return true;
  }
}
