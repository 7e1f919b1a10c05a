/**
 * The states of a grammar. A state is all that decides which characters may follow, so what was found out about one is
 * true whenever a text reaches it again. States and steps between them are made when a text first needs them.
 */
import { type Node, parseGbnf } from "./gbnf.ts";

/** A place in a node: the character of a text, the part of a sequence, or how often something was repeated. */
type Frame = { id: number; node: Node; at: number };
/** A node that is expected next, and what comes after it. */
type Stack = { id: number; frame: Frame; rest: Stack | null };
type State = { stacks: readonly (Stack | null)[]; next: Map<number, number> };

const MOST_STATES = 4_000;
const MOST_STACKS = 20_000; // of all states
const MOST_STEPS = 50_000; // between states
const WIDEST = 256; // stacks of a state
const MOST_FORCED = 64; // characters
const [SPACE, COMMA, COLON] = [32, 44, 58];
const BLANKS: readonly number[] = [SPACE, 9, 10];

export class GrammarStates {
  readonly #rules: ReadonlyMap<string, Node>;
  readonly #codesOf = new Map<Node, readonly number[]>();
  readonly #frames = new Map<Node, Map<number, Frame>>();
  readonly #stacks = new Map<string, Stack>();
  readonly #numbers = new Map<string, number>();
  readonly #states: State[] = [];
  #frameCount = 0;
  #steps = 0;
  /** The state of an empty text. */
  readonly begin: number;

  /** Throws for a grammar that cannot be read here. */
  constructor(grammar: string) {
    this.#rules = parseGbnf(grammar);
    this.begin = this.#numberOf(this.#expanded([this.#stack({ kind: "rule", name: "root" }, 0, null)]));
  }

  /** Returns the state after a character. Throws if the grammar does not allow it, or there are too many states. */
  after(state: number, code: number): number {
    const { stacks, next } = this.#states[state]!;
    const known = next.get(code);
    if (known !== undefined) return known;
    const matched = stacks.filter((stack) => stack !== null && this.#matches(stack.frame, code)) as Stack[];
    if (matched.length === 0) throw new Error("the grammar does not allow this character");
    const number = this.#numberOf(this.#expanded(matched.map((stack) => this.#behind(stack))));
    if (++this.#steps > MOST_STEPS) throw new Error("too many steps");
    next.set(code, number);
    return number;
  }

  /**
   * Returns the text that must follow. Blanks that may come between are a guess: one behind a colon or a comma, as most
   * models write them. `last`: the character before.
   */
  forced(state: number, last: number): string {
    let text = "";
    let [at, before] = [state, last];
    while (text.length < MOST_FORCED) {
      const code = this.#only(at, before === COLON || before === COMMA);
      if (code === null) break;
      text += String.fromCodePoint(code);
      [at, before] = [this.after(at, code), code];
    }
    return text.trimEnd();
  }

  /** The only character besides blanks that may follow; a blank before it if `spaced` and it may stand there. */
  #only(state: number, spaced: boolean): number | null {
    let only: number | null = null;
    let isSpaced = false;
    for (const stack of this.#states[state]!.stacks) {
      const codes = stack && this.#few(stack.frame);
      if (!codes) return null;
      for (const code of codes) {
        if (BLANKS.includes(code)) isSpaced ||= code === SPACE;
        else if (only !== null && only !== code) return null;
        else only = code;
      }
    }
    return only !== null && spaced && isSpaced ? SPACE : only;
  }

  /** The characters that a frame begins with; null if they are many. */
  #few({ node, at }: Frame): readonly number[] | null {
    if (node.kind === "text") return this.#codes(node).slice(at, at + 1);
    if (node.kind !== "set" || node.negated || node.ranges.some(([from, to]) => from !== to)) return null;
    return node.ranges.map(([from]) => from);
  }

  #numberOf(stacks: ReadonlySet<Stack | null>): number {
    const sorted = [...stacks].sort((a, b) => (a?.id ?? 0) - (b?.id ?? 0));
    const key = sorted.map((stack) => stack?.id ?? 0).join();
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    if (this.#states.length === MOST_STATES || sorted.length > WIDEST) throw new Error("too many states");
    this.#numbers.set(key, this.#states.length);
    return this.#states.push({ stacks: sorted, next: new Map() }) - 1;
  }

  #stack(node: Node, at: number, rest: Stack | null): Stack {
    const frame = this.#frame(node, at);
    const key = `${frame.id} ${rest?.id ?? 0}`;
    const known = this.#stacks.get(key);
    if (known) return known;
    if (this.#stacks.size === MOST_STACKS) throw new Error("too many stacks");
    const stack = { id: this.#stacks.size + 1, frame, rest };
    this.#stacks.set(key, stack);
    return stack;
  }

  #frame(node: Node, at: number): Frame {
    const ofNode = this.#frames.get(node) ?? new Map<number, Frame>();
    this.#frames.set(node, ofNode);
    const frame = ofNode.get(at) ?? { id: ++this.#frameCount, node, at };
    ofNode.set(at, frame);
    return frame;
  }

  /** Stacks that begin with a character, for stacks that may begin with anything. Null: the text may end. */
  #expanded(stacks: readonly (Stack | null)[]): Set<Stack | null> {
    const out = new Set<Stack | null>();
    const seen = new Set<Stack>();
    const open = [...stacks];
    while (open.length > 0) {
      const stack = open.pop()!;
      if (stack === null || this.#isChar(stack.frame)) out.add(stack);
      else if (!seen.has(stack)) {
        seen.add(stack);
        open.push(...this.#opened(stack));
      }
    }
    return out;
  }

  #isChar({ node, at }: Frame): boolean {
    return node.kind === "set" || (node.kind === "text" && at < this.#codes(node).length);
  }

  #opened({ frame: { node, at }, rest }: Stack): (Stack | null)[] {
    if (node.kind === "rule") return [this.#stack(this.#rule(node.name), 0, rest)];
    if (node.kind === "alt") return node.parts.map((part) => this.#stack(part, 0, rest));
    if (node.kind === "seq") {
      const part = node.parts[at];
      if (!part) return [rest];
      return [this.#stack(part, 0, at + 1 < node.parts.length ? this.#stack(node, at + 1, rest) : rest)];
    }
    if (node.kind !== "repeat") return [rest]; // the end of a text
    const { part, min, max } = node;
    const done = max === Number.POSITIVE_INFINITY ? Math.min(at + 1, min) : at + 1;
    return [...(at >= min ? [rest] : []), ...(at < max ? [this.#stack(part, 0, this.#stack(node, done, rest))] : [])];
  }

  #behind({ frame: { node, at }, rest }: Stack): Stack | null {
    return node.kind === "text" ? this.#stack(node, at + 1, rest) : rest;
  }

  #matches({ node, at }: Frame, code: number): boolean {
    if (node.kind === "text") return this.#codes(node)[at] === code;
    if (node.kind !== "set") return false;
    return node.ranges.some(([from, to]) => from <= code && code <= to) !== node.negated;
  }

  #codes(node: Node & { kind: "text" }): readonly number[] {
    const known = this.#codesOf.get(node);
    if (known) return known;
    const codes = Array.from(node.text, (char) => char.codePointAt(0)!);
    this.#codesOf.set(node, codes);
    return codes;
  }

  #rule(name: string): Node {
    const rule = this.#rules.get(name);
    if (!rule) throw new Error(`undefined rule ${name}`);
    return rule;
  }
}

/** A place in a text of UTF-8: a state, and the bytes of a character that has begun. */
export class GrammarPlace {
  readonly #states: GrammarStates;
  #state: number;
  #code = 0;
  #missing = 0;

  constructor(states: GrammarStates) {
    this.#states = states;
    this.#state = states.begin;
  }

  /** Equal for places after which the same may follow. */
  get key(): string {
    return this.#missing === 0 ? `${this.#state}` : `${this.#state} ${this.#missing} ${this.#code}`;
  }

  copy(): GrammarPlace {
    const copy = new GrammarPlace(this.#states);
    [copy.#state, copy.#code, copy.#missing] = [this.#state, this.#code, this.#missing];
    return copy;
  }

  /** Returns the text that must follow, with a guess of blanks. */
  forced(): string {
    return this.#missing > 0 ? "" : this.#states.forced(this.#state, this.#code);
  }

  /** Throws if the grammar does not allow these bytes. */
  take(bytes: Uint8Array) {
    for (const byte of bytes) {
      if (this.#missing > 0 && byte >> 6 === 2) {
        this.#code = (this.#code << 6) | (byte & 0x3f);
        this.#missing--;
      } else if (this.#missing === 0 && byte < 0x80) this.#code = byte;
      else if (this.#missing === 0 && byte >= 0xc2 && byte < 0xf5) this.#begin(byte);
      else throw new Error("the text is not UTF-8");
      if (this.#missing === 0) this.#state = this.#states.after(this.#state, this.#code);
    }
  }

  #begin(byte: number) {
    this.#missing = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    this.#code = byte & (0x3f >> this.#missing);
  }
}
