/** The text of a sequence whose next tokens may be guessed, and the random numbers of its next tokens. No effects. */
import { nextRandom, randomState } from "../../../lib/random.ts";
import type { Admission } from "../types.ts";
import { type Costs, Guesser } from "./guesses.ts";

export const MOST_DECODED = 7; // guesses of a step: with the token before them, the rows of the smallest tile

/**
 * With guesses no step is queued before the last one is read. Measured on an H200 at short contexts: 0.027 and 0.004. Long
 * contexts make guesses dearer, and a busy host the steps.
 */
const COSTS: Costs = { guess: 0.01, step: 0.05 };
const NONE = new Int32Array(0);

/** Penalties, biases and masks have memory of the slot, which the slots of guesses do not have. */
export const canGuess = ({ drawing, checked, propose }: Pick<Admission, "drawing" | "checked" | "propose">) =>
  (!checked || propose !== undefined) &&
  !drawing.masked &&
  drawing.logitBias.length === 0 &&
  drawing.frequencyPenalty === 0 &&
  drawing.presencePenalty === 0 &&
  drawing.repeatPenalty === 1;

export class GuessedText {
  readonly #tokens: Int32Array;
  readonly #guesser = new Guesser(COSTS);
  readonly #random: Int32Array;
  #count: number;
  #looked = 0; // tokens of the text that the newest guesses follow; 0 = there are none

  constructor(prompt: Int32Array, maxTokens: number, seed: number) {
    this.#tokens = new Int32Array(prompt.length + maxTokens);
    this.#tokens.set(prompt);
    this.#count = prompt.length;
    this.#random = Int32Array.from(randomState(seed));
  }

  /** Returns the guesses that are worth decoding behind the newest token, at most `most`. */
  guess(most: number): Int32Array {
    if (most <= 0) return NONE;
    this.#looked = this.#count;
    const length = this.#count - 1;
    return this.#guesser.guess({ tokens: this.#tokens, length, next: this.#tokens[length]! }, most);
  }

  /** Call with each drawn token. */
  add(token: number) {
    if (this.#looked > 0) this.#guesser.drew(this.#count - this.#looked, token);
    this.#tokens[this.#count++] = token;
    nextRandom(this.#random);
  }

  /** The newest token is drawn again. Its random numbers are spent. */
  takeBack() {
    this.#count--;
  }

  /** Call when the drawn tokens of a step were added. */
  endStep() {
    this.#looked = 0;
  }

  /** Returns the state of the generator before it draws the token in this many places. */
  randomIn(places: number): Int32Array {
    const state = this.#random.slice();
    for (let i = 0; i < places; i++) nextRandom(state);
    return state;
  }
}

/** Returns how many drawn tokens count: those up to the first that differs from its guess, and that one. */
export function countDrawn(guesses: Int32Array, drawn: (row: number) => number): number {
  let row = 0;
  while (row < guesses.length && drawn(row) === guesses[row]) row++;
  return row + 1;
}
