/**
 * Guesses the next tokens of a text by looking up how it went on after the same words before. The guesses are decoded
 * in one batch with the next token, so each right one saves a step. Every token is still drawn from the model's logits
 * by its own sampler, so the output keeps its distribution. Pure, and without a clock: the same request makes the same
 * batches.
 */

/** The tokens of a text: `tokens[0, length)`, then `next`. */
export type Text = { tokens: Int32Array; length: number; next: number };

export const MOST_GUESSES = 8;
const MATCH = 3; // tokens that must be alike, `next` among them

/** The cost of a guess, and of a step with guesses beyond that of one without, in steps. */
export type Costs = { guess: number; step: number };
const LIBRARY_COSTS: Costs = { guess: 0.3, step: 0 }; // on CPUs from 2 to 16 cores a guess costs 0.15 to 0.5
const FIRST_CHANCE = 0.5;
const SLOWLY = 0.15; // weight of the newest guess
const NONE = new Int32Array(0);

/** Numbers below 0 are rows of images: a guess ends before them. */
const spoken = (tokens: Int32Array): Int32Array => {
  const end = tokens.findIndex((token) => token < 0);
  return end < 0 ? tokens : tokens.subarray(0, end);
};

/** Returns the tokens after the newest earlier place with the same last tokens, at most `most`. Continues a loop. */
export function lookUp({ tokens, length, next }: Text, most: number): Int32Array {
  if (most <= 0) return NONE;
  const last = tokens[length - 1];
  const before = tokens[length - 2];
  for (let at = length - 1; at >= MATCH - 1; at--) {
    if (tokens[at] !== next || tokens[at - 1] !== last || tokens[at - 2] !== before) continue;
    const guesses = new Int32Array(most);
    for (let i = 0; i < most; i++) {
      const from = at + 1 + i;
      guesses[i] = from < length ? tokens[from]! : from === length ? next : guesses[from - length - 1]!;
    }
    return spoken(guesses);
  }
  return NONE;
}

/** Returns how many guesses save most time, if each is right with this chance. The gain is 1 + p + p² … steps. */
export function bestCount(chance: number, most = MOST_GUESSES, costs = LIBRARY_COSTS): number {
  let best = 0;
  let bestSpeed = 1;
  let gain = 1;
  for (let count = 1; count <= most; count++) {
    gain += chance ** count;
    const speed = gain / (1 + costs.step + costs.guess * count);
    if (speed <= bestSpeed) continue;
    best = count;
    bestSpeed = speed;
  }
  return best;
}

/** The guesses of one sequence. It learns from every guess, also from those that were not worth decoding. */
export class Guesser {
  readonly #costs: Costs;
  #chance = FIRST_CHANCE;
  #looked: Int32Array = NONE;
  #decoded = 0;

  constructor(costs = LIBRARY_COSTS) {
    this.#costs = costs;
  }

  /** Returns the guesses to decode now, at most `most`. */
  guess(text: Text, most: number): Int32Array {
    this.#looked = lookUp(text, Math.min(most, MOST_GUESSES));
    this.#decoded = Math.min(this.#looked.length, bestCount(this.#chance, most, this.#costs));
    return this.#looked.subarray(0, this.#decoded);
  }

  /** Call with the token that was drawn at place `i` of the guesses. Returns true if a decoded guess was right. */
  drew(i: number, token: number): boolean {
    const guess = this.#looked[i];
    if (guess === undefined || i > this.#decoded) return false;
    const isRight = guess === token;
    this.#chance += SLOWLY * ((isRight ? 1 : 0) - this.#chance);
    return isRight && i < this.#decoded;
  }
}
