/**
 * Regular expressions of users, matched in linear time: no pattern makes a search slow, and none keeps much memory.
 * Texts are read in short blocks, so that a caller can let other work of the thread in between.
 */
import { takingTurns } from "../../../lib/turns.ts";
import type { Alphabet, Side } from "./alphabet.ts";
import { networkOf } from "./network.ts";
import { type Dialect, parsePattern } from "./parse.ts";
import { Subsets } from "./subsets.ts";

const BLOCK = 256; // characters; with the largest patterns they take some milliseconds

/** A part of the text with the states of the search at its start. A subset instead would keep all that followed it. */
type Block = { from: number; to: number; states: Uint16Array; behind: Side; hasMatchEnd: boolean };

/** Several patterns that are searched together. */
export class Patterns {
  readonly #isByCodeUnit: boolean;
  readonly #alphabet: Alphabet;
  readonly #forward: Subsets;
  readonly #backward: Subsets;
  readonly #root: number;
  readonly #marks: Float64Array;
  readonly #blockLength: number;
  #mark = 0;

  /** Throws PatternError. */
  constructor(sources: readonly string[], dialect: Dialect, { ignoreCase = false, blockLength = BLOCK } = {}) {
    this.#blockLength = blockLength;
    const network = networkOf(sources.map((source) => parsePattern(source, dialect, ignoreCase)));
    this.#isByCodeUnit = dialect.isByCodeUnit;
    this.#alphabet = network.alphabet;
    this.#forward = new Subsets(network.forward, network.alphabet);
    this.#backward = new Subsets(network.backward, network.alphabet);
    this.#root = network.forward.root;
    this.#marks = new Float64Array(network.forward.states);
  }

  /** True if one of the patterns occurs in the text. */
  async occurIn(text: string): Promise<boolean> {
    const turn = takingTurns();
    for (const { hasMatchEnd } of this.#blocks(text)) {
      if (hasMatchEnd) return true;
      await turn();
    }
    return false;
  }

  /** Spent so far on all texts, see Subsets. A pattern whose sets of states do not repeat needs some for each character. */
  get work(): number {
    return this.#forward.work + this.#backward.work;
  }

  /**
   * The text with each run of characters replaced that some match of some pattern covers. Matches that overlap count
   * too. The same text if nothing matches; undefined if that takes more than `mostWork`.
   */
  replace(text: string, replacement: string, mostWork = Number.POSITIVE_INFINITY): string | undefined {
    const most = this.work + mostWork;
    const blocks: Block[] = [];
    for (const block of this.#blocks(text)) {
      if (this.work > most) return undefined;
      blocks.push(block);
    }
    if (!blocks.some(({ hasMatchEnd }) => hasMatchEnd)) return text;
    const covered = this.#covered(text, blocks, most);
    if (covered === undefined) return undefined;
    let result = "";
    for (let at = 0; at < text.length; ) {
      const from = covered.indexOf(1, at);
      if (from < 0) return result + text.slice(at);
      const end = covered.indexOf(0, from);
      result += text.slice(at, from) + replacement;
      at = end < 0 ? text.length : end;
    }
    return result;
  }

  #characterAt(text: string, at: number): number {
    return this.#isByCodeUnit ? text.charCodeAt(at) : text.codePointAt(at)!;
  }

  #sideAt(text: string, at: number): Side {
    return this.#alphabet.sideOf(this.#alphabet.classOf(this.#characterAt(text, at)));
  }

  *#blocks(text: string): Generator<Block> {
    let subset = this.#forward.atEdge();
    let at = 0;
    do {
      const from = at;
      const { states, behind } = subset;
      let hasMatchEnd = false;
      for (const end = Math.min(from + this.#blockLength, text.length); at < end; ) {
        const character = this.#characterAt(text, at);
        const step = this.#forward.step(subset, this.#alphabet.classOf(character));
        if (step.isGoal) hasMatchEnd = true;
        subset = step.to;
        at += character > 0xffff ? 2 : 1;
      }
      if (at >= text.length && this.#forward.step(subset, this.#alphabet.end).isGoal) hasMatchEnd = true;
      yield { from, to: at, states, behind, hasMatchEnd };
    } while (at < text.length);
  }

  /**
   * A match covers a character if the character leads to a state that a match begun earlier has reached, and from which
   * a match can still end. The first is known forward, the second backward. A block is passed over if no match ends in it
   * and none reaches from it into the next one.
   */
  #covered(text: string, blocks: readonly Block[], mostWork: number): Uint8Array | undefined {
    const covered = new Uint8Array(text.length);
    let subset = this.#backward.atEdge();
    let isReached = false; // the next block, by a match that began before it
    for (const block of blocks.toReversed()) {
      if (this.work > mostWork) return undefined;
      if (!block.hasMatchEnd && !isReached) {
        subset = this.#backward.subset(this.#backward.atEdge().states, this.#sideAt(text, block.from));
        continue;
      }
      isReached = block.states.length > 1;
      const { starts, classes, reached } = this.#readAgain(text, block);
      for (let i = classes.length - 1; i >= 0; i--) {
        const { before, to } = this.#backward.step(subset, classes[i]!);
        if (this.#meet(reached[i]!, before)) covered.fill(1, starts[i], starts[i + 1]);
        subset = to;
      }
    }
    return covered;
  }

  /** The characters of a block: where they start, their classes, and the states that they lead to. */
  #readAgain(text: string, { from, to, states, behind }: Block) {
    const starts = [from];
    const classes: number[] = [];
    const reached: Uint16Array[] = [];
    let subset = this.#forward.subset(states, behind);
    for (let at = from; at < to; ) {
      const character = this.#characterAt(text, at);
      const characterClass = this.#alphabet.classOf(character);
      subset = this.#forward.step(subset, characterClass).to;
      at += character > 0xffff ? 2 : 1;
      starts.push(at);
      classes.push(characterClass);
      reached.push(subset.states);
    }
    return { starts, classes, reached };
  }

  /** The root does not count: it is always among the states of the forward search. */
  #meet(forward: Uint16Array, backward: Uint16Array): boolean {
    if (forward.length === 1) return false;
    const mark = ++this.#mark;
    for (let i = 0; i < forward.length; i++) this.#marks[forward[i]!] = mark;
    this.#marks[this.#root] = 0;
    for (let i = 0; i < backward.length; i++) if (this.#marks[backward[i]!] === mark) return true;
    return false;
  }
}
