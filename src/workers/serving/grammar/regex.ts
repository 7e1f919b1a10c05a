/**
 * Compiles a regular expression over the characters of a JSON string to GBNF. Supported: literals, classes, groups,
 * alternatives, repetition, ^ and $ at the ends. Lookaround and back-references are rejected.
 */
import { characterClass, invert, LAST, plainClass, type Range } from "./char_sets.ts";
import { ANY, either, inOrder, ONE, type Part, times, tooHard } from "./regex_parts.ts";
import { literal, MAX_REPEAT, type Rules } from "./rules.ts";

export class UnsupportedPattern extends Error {}

const DIGIT: Range[] = [[0x30, 0x39]];
const WORD: Range[] = [...DIGIT, [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]];
const SPACE: Range[] = [
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];
const NEWLINE: Range[] = [
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
];
const SETS: Record<string, Range[]> = {
  d: DIGIT,
  D: invert(DIGIT),
  w: WORD,
  W: invert(WORD),
  s: SPACE,
  S: invert(SPACE),
};
const CONTROLS: Record<string, number> = { n: 10, r: 13, t: 9, f: 12, v: 11, 0: 0 };
/** Characters that JSON writes with a backslash. */
const ESCAPED: [code: number, text: string][] = [
  [0x22, '\\"'],
  [0x5c, "\\\\"],
  [0x08, "\\b"],
  [0x0c, "\\f"],
  [0x0a, "\\n"],
  [0x0d, "\\r"],
  [0x09, "\\t"],
];

/** A rule for the strings, quotes included, that the pattern matches. Built-in patterns skip the cost limit. */
export function patternRule(pattern: string, rules: Rules, isBuiltin = false): string {
  const reader = new Reader([...pattern], rules, { isWhole: false });
  const whole = reader.alternatives(true);
  if (!reader.done) throw new UnsupportedPattern(`unexpected ${reader.peek()}`);
  if (!isBuiltin && tooHard(whole)) throw new UnsupportedPattern(TOO_HARD);
  return rules.define(`"\\"" (${whole.body}) "\\""`);
}

/** A rule for the texts, as they are, that the whole pattern matches. */
export function wholeRule(pattern: string, rules: Rules): string {
  const reader = new Reader([...pattern], rules, { isWhole: true });
  const whole = reader.alternatives(true);
  if (!reader.done) throw new UnsupportedPattern(`unexpected ${reader.peek()}`);
  if (tooHard(whole)) throw new UnsupportedPattern(TOO_HARD);
  return rules.define(whole.body);
}

const TOO_HARD = "the text can be matched in too many ways. Use fewer repetitions inside repetitions";

class Reader {
  private at = 0;
  /** `isWhole`: for texts instead of strings of JSON, and the pattern matches the whole text without ^ and $. */
  constructor(
    private readonly text: readonly string[],
    private readonly rules: Rules,
    private readonly options: { isWhole: boolean },
  ) {}

  private set(set: readonly Range[]): Part {
    return { ...ONE, body: this.options.isWhole ? plainRule(set) : setRule(set) };
  }

  get done() {
    return this.at >= this.text.length;
  }
  peek(ahead = 0): string | undefined {
    return this.text[this.at + ahead];
  }
  private take(expected: string): boolean {
    if (this.peek() !== expected) return false;
    this.at++;
    return true;
  }

  alternatives(top: boolean): Part {
    const parts = [this.sequence(top)];
    while (this.take("|")) parts.push(this.sequence(top));
    return either(parts);
  }

  private sequence(top: boolean): Part {
    const parts: Part[] = [];
    const { isWhole } = this.options;
    if (top && !this.take("^") && !isWhole) parts.push(ANY);
    let ended = false;
    while (!this.done && this.peek() !== "|" && this.peek() !== ")") {
      if (ended) throw new UnsupportedPattern("$ is only supported at the end");
      if (top && this.take("$")) ended = true;
      else parts.push(this.repeated());
    }
    if (top && !ended && !isWhole) parts.push(ANY);
    return inOrder(parts);
  }

  private repeated(): Part {
    const atom = this.atom();
    const range = this.quantifier();
    if (!range) return atom;
    this.take("?"); // a lazy quantifier matches the same language
    const [min, max] = range;
    if (max < min) throw new UnsupportedPattern(`{${min},${max}}`);
    if (min > MAX_REPEAT || (max !== Number.POSITIVE_INFINITY && max > MAX_REPEAT))
      throw new UnsupportedPattern(`more than ${MAX_REPEAT} repetitions`);
    return times(atom, min, max, this.rules);
  }

  private quantifier(): [min: number, max: number] | undefined {
    const infinite = Number.POSITIVE_INFINITY;
    if (this.take("*")) return [0, infinite];
    if (this.take("+")) return [1, infinite];
    if (this.take("?")) return [0, 1];
    const braces = /^\{(\d{1,5})(,(\d{0,5}))?\}/.exec(this.text.slice(this.at, this.at + 14).join(""));
    if (!braces) return undefined;
    this.at += braces[0].length;
    const min = Number(braces[1]);
    if (braces[2] === undefined) return [min, min];
    return [min, braces[3] ? Number(braces[3]) : infinite];
  }

  private atom(): Part {
    if (this.take("(")) return this.group();
    if (this.take("[")) return this.set(this.characterClass());
    if (this.take(".")) return this.set(invert(NEWLINE));
    const char = this.peek() as string;
    if (char === "\\") {
      this.at++;
      return this.set(this.escape());
    }
    if ("^$*+?{".includes(char)) throw new UnsupportedPattern(`${char} is not supported here`);
    this.at++;
    return this.set([[char.codePointAt(0) as number, char.codePointAt(0) as number]]);
  }

  private group(): Part {
    if (this.take("?")) {
      if (this.take("<") && this.peek() !== "=" && this.peek() !== "!") while (!this.done && !this.take(">")) this.at++;
      else if (!this.take(":")) throw new UnsupportedPattern("lookahead and lookbehind are not supported");
    }
    const part = this.alternatives(false);
    if (!this.take(")")) throw new UnsupportedPattern("a group has no closing )");
    return { ...part, body: `(${part.body})` };
  }

  private escape(): Range[] {
    const char = this.text[this.at++];
    if (char === undefined) throw new UnsupportedPattern("a \\ at the end escapes nothing");
    const set = SETS[char];
    if (set) return set;
    const control = CONTROLS[char];
    if (control !== undefined) return [[control, control]];
    if (char === "x") return this.hex(2);
    if (char === "u") return this.peek() === "{" ? this.hex(0) : this.hex(4);
    if (/[A-Za-z0-9]/.test(char)) throw new UnsupportedPattern(`\\${char}`);
    return [[char.codePointAt(0) as number, char.codePointAt(0) as number]];
  }

  private hex(digits: number): Range[] {
    const end = digits === 0 ? this.text.indexOf("}", this.at) : this.at + digits;
    const text = this.text.slice(digits === 0 ? this.at + 1 : this.at, end).join("");
    const code = Number.parseInt(text, 16);
    if (!/^[0-9a-fA-F]{1,6}$/.test(text) || code > LAST) throw new UnsupportedPattern("an invalid character code");
    this.at = digits === 0 ? end + 1 : end;
    return [[code, code]];
  }

  private characterClass(): Range[] {
    const negated = this.take("^");
    const ranges: Range[] = [];
    while (!this.take("]")) {
      const from = this.classAtom();
      const single = from.length === 1 && from[0]![0] === from[0]![1];
      if (single && this.peek() === "-" && this.peek(1) !== "]") {
        this.at++;
        const to = this.classAtom();
        ranges.push([from[0]![0], to[0]![1]]);
      } else ranges.push(...from);
    }
    return negated ? invert(ranges) : ranges;
  }

  private classAtom(): Range[] {
    const char = this.text[this.at++];
    if (char === undefined) throw new UnsupportedPattern("a character class has no closing ]");
    if (char !== "\\") return [[char.codePointAt(0) as number, char.codePointAt(0) as number]];
    if (this.take("b")) return [[8, 8]];
    return this.escape();
  }
}

const includes = (ranges: readonly Range[], code: number) => ranges.some(([from, to]) => from <= code && code <= to);

/** One character of the set as it is. */
function plainRule(set: readonly Range[]): string {
  const rule = characterClass(set);
  if (rule === undefined) throw new UnsupportedPattern("a character class is empty");
  return rule;
}

/** One character of the set as JSON writes it in a string. */
function setRule(set: readonly Range[]): string {
  const plain = plainClass(set);
  const parts = ESCAPED.filter(([code]) => includes(set, code)).map(([, text]) => literal(text));
  if (plain !== undefined) parts.unshift(plain);
  if (parts.length === 0) throw new UnsupportedPattern("a character class is empty");
  return parts.length === 1 ? (parts[0] as string) : `(${parts.join(" | ")})`;
}
