/**
 * Parses the part of the syntax of regular expressions that can be matched in linear time. Look-around and back
 * references are errors, because they need backtracking.
 */

export type PatternNode =
  | { type: "set"; has: (codePoint: number) => boolean }
  | { type: "sequence"; parts: PatternNode[] }
  | { type: "choice"; parts: PatternNode[] }
  | { type: "repeat"; node: PatternNode; min: number; max: number }
  | { type: "assert"; kind: "start" | "end" | "word" | "not_word" };

/** The message follows the name of a field: `value: has …`. */
export class PatternError extends Error {}

const MAX_DEPTH = 100;
const MAX_REPEAT = 1000;

type Ranges = readonly (readonly [number, number])[];
const DIGIT: Ranges = [[48, 57]];
const WORD: Ranges = [
  [48, 57],
  [65, 90],
  [95, 95],
  [97, 122],
];
const SPACE: Ranges = [
  [9, 13],
  [32, 32],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];
const LINE_END: Ranges = [
  [10, 10],
  [13, 13],
  [0x2028, 0x2029],
];
const CLASSES: Record<string, Ranges> = { d: DIGIT, w: WORD, s: SPACE };
const CONTROLS: Record<string, number> = { n: 10, r: 13, t: 9, f: 12, v: 11, "0": 0 };

type Test = (codePoint: number) => boolean;
const within =
  (ranges: Ranges): Test =>
  (codePoint) =>
    ranges.some(([low, high]) => codePoint >= low && codePoint <= high);
const not =
  (test: Test): Test =>
  (codePoint) =>
    !test(codePoint);

export const isWord = within(WORD);

export function parsePattern(source: string, ignoreCase: boolean): PatternNode {
  const parser = new Parser(source, ignoreCase);
  const node = parser.choice(0);
  if (!parser.isAtEnd) throw new PatternError("has a ) without a (");
  return node;
}

class Parser {
  readonly #characters: string[];
  #at = 0;

  readonly #fold: (test: Test) => Test;

  constructor(source: string, ignoreCase: boolean) {
    this.#characters = [...source];
    this.#fold = ignoreCase ? eitherCase : (test) => test;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#characters.length;
  }

  choice(depth: number): PatternNode {
    if (depth > MAX_DEPTH) throw new PatternError(`has more than ${MAX_DEPTH} groups inside each other`);
    const parts = [this.#sequence(depth)];
    while (this.#takes("|")) parts.push(this.#sequence(depth));
    return parts.length === 1 ? parts[0]! : { type: "choice", parts };
  }

  #sequence(depth: number): PatternNode {
    const parts: PatternNode[] = [];
    while (!this.isAtEnd && this.#peek() !== "|" && this.#peek() !== ")") parts.push(this.#repeated(depth));
    return { type: "sequence", parts };
  }

  #repeated(depth: number): PatternNode {
    const node = this.#atom(depth);
    const times = this.#times();
    if (!times) return node;
    if (node.type === "assert") throw new PatternError("repeats ^, $ or \\b, which has no meaning");
    this.#takes("?"); // lazy: which part matches first does not matter here
    if (this.#times()) throw new PatternError("has two repetitions in a row: put the first one into a group");
    return { type: "repeat", node, ...times };
  }

  #times(): { min: number; max: number } | undefined {
    if (this.#takes("*")) return { min: 0, max: Number.POSITIVE_INFINITY };
    if (this.#takes("+")) return { min: 1, max: Number.POSITIVE_INFINITY };
    if (this.#takes("?")) return { min: 0, max: 1 };
    const text = this.#characters.slice(this.#at, this.#at + 12).join("");
    const [whole, low, comma, high] = /^\{(\d{1,4})(,(\d{0,4}))?\}/.exec(text) ?? [];
    if (whole === undefined) return undefined;
    this.#at += whole.length;
    const min = Number(low);
    const max = comma === undefined ? min : high ? Number(high) : Number.POSITIVE_INFINITY;
    if (max < min) throw new PatternError(`has ${whole}, whose second number is smaller than the first`);
    if (min > MAX_REPEAT || (max > MAX_REPEAT && Number.isFinite(max)))
      throw new PatternError(`has ${whole}: at most ${MAX_REPEAT} repetitions can be counted`);
    return { min, max };
  }

  #atom(depth: number): PatternNode {
    const character = this.#next();
    if (character === "(") return this.#group(depth);
    if (character === "[") return { type: "set", has: this.#class() };
    if (character === ".") return { type: "set", has: not(within(LINE_END)) };
    if (character === "^") return { type: "assert", kind: "start" };
    if (character === "$") return { type: "assert", kind: "end" };
    if (character === "\\") return this.#escape();
    if ("*+?".includes(character)) throw new PatternError(`has a ${character} with nothing before it to repeat`);
    return { type: "set", has: this.#fold(only(character.codePointAt(0)!)) };
  }

  #group(depth: number): PatternNode {
    if (this.#takes("?")) {
      const rest = this.#characters.slice(this.#at, this.#at + 80).join("");
      const [name] = /^(:|<[A-Za-z_]\w{0,63}>)/.exec(rest) ?? [];
      if (name === undefined)
        throw new PatternError("has a (?…) group that is not supported: only (?:…) and (?<name>…) are");
      this.#at += name.length;
    }
    const node = this.choice(depth + 1);
    if (!this.#takes(")")) throw new PatternError("has a ( without a )");
    return node;
  }

  #escape(): PatternNode {
    const next = this.#peek();
    if (next === "b" || next === "B") {
      this.#at++;
      return { type: "assert", kind: next === "b" ? "word" : "not_word" };
    }
    const escaped = this.#escaped();
    return { type: "set", has: typeof escaped === "number" ? this.#fold(only(escaped)) : escaped };
  }

  /** The character after a backslash: a code point, or a class such as \d. */
  #escaped(): number | Test {
    const letter = this.#next();
    const ranges = CLASSES[letter.toLowerCase()];
    if (ranges) return letter === letter.toLowerCase() ? within(ranges) : not(within(ranges));
    if (letter === "x" || letter === "u") return this.#hex(letter);
    if (Object.hasOwn(CONTROLS, letter)) return CONTROLS[letter]!;
    if (/[1-9k]/.test(letter)) throw new PatternError("has a back reference, which is not supported");
    if (/[A-Za-z]/.test(letter)) throw new PatternError(`has \\${letter}, which is not supported`);
    return letter.codePointAt(0)!;
  }

  #hex(letter: string): number {
    const rest = this.#characters.slice(this.#at, this.#at + 8).join("");
    const form = letter === "x" ? /^([\da-f]{2})/i : /^(?:([\da-f]{4})|\{([\da-f]{1,6})\})/i;
    const [whole, plain, braced] = form.exec(rest) ?? [];
    const codePoint = Number.parseInt(plain ?? braced ?? "", 16);
    if (whole === undefined || codePoint > 0x10ffff) throw new PatternError(`has a wrong \\${letter} escape`);
    this.#at += whole.length;
    return codePoint;
  }

  #class(): Test {
    const isNegated = this.#takes("^");
    const tests: Test[] = [];
    while (!this.#takes("]")) {
      const low = this.#classPart();
      const isRange = this.#peek() === "-" && this.#characters[this.#at + 1] !== "]" && typeof low === "number";
      if (!isRange) {
        tests.push(typeof low === "number" ? this.#fold(only(low)) : low);
        continue;
      }
      this.#at++;
      const high = this.#classPart();
      if (typeof high !== "number" || high < low) throw new PatternError("has a range in […] that is out of order");
      tests.push(this.#fold(within([[low, high]])));
    }
    const some: Test = (codePoint) => tests.some((test) => test(codePoint));
    return isNegated ? not(some) : some;
  }

  #classPart(): number | Test {
    if (this.isAtEnd) throw new PatternError("has a [ without a ]");
    const character = this.#next();
    if (character !== "\\") return character.codePointAt(0)!;
    if (this.#takes("b")) return 8; // a backspace, as in JavaScript
    return this.#escaped();
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

/** It is applied before a class is negated: `[^a]` must match neither case. */
const eitherCase =
  (has: Test): Test =>
  (codePoint) => {
    if (has(codePoint)) return true;
    const character = String.fromCodePoint(codePoint);
    return [character.toLowerCase(), character.toUpperCase()].some((other) => {
      const found = other.codePointAt(0);
      return found !== undefined && has(found);
    });
  };

const only =
  (wanted: number): Test =>
  (codePoint) =>
    codePoint === wanted;
