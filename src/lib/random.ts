/**
 * Seeded random numbers. No state of a run is kept in a generator: a stream is opened from recorded numbers (seed,
 * epoch, step, index). So a run that resumes draws the same numbers as an uninterrupted one.
 */

/** Uniform in [0, 1), 32 bits of it. */
export type Random = () => number;

const GOLDEN = 0x9e3779b9;

/** Several numbers → 32 bits that look unrelated for neighbouring arguments. Numbers count as 64-bit integers. */
export function seedOf(...parts: readonly number[]): number {
  let state = 0x243f6a88;
  for (const part of parts) {
    state = scramble(state ^ (part >>> 0));
    state = scramble(state ^ (Math.floor(part / 2 ** 32) >>> 0));
  }
  return state;
}

function scramble(value: number): number {
  let x = (value + GOLDEN) | 0;
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return (x ^ (x >>> 15)) >>> 0;
}

/** The state of a new generator, for one that runs elsewhere: three numbers and the counter. */
export const randomState = (...parts: readonly number[]): [number, number, number, number] => [
  seedOf(...parts, 1) | 0,
  seedOf(...parts, 2) | 0,
  seedOf(...parts, 3) | 0,
  1,
];

/** sfc32: 128 bits of state, a counter in it, so no short cycles. Moves the state on and returns 32 bits. */
export function nextRandom(state: Int32Array): number {
  // By index: taking an array apart asks its iterator, which is ten times slower.
  const a = state[0]!;
  const b = state[1]!;
  const c = state[2]!;
  const counter = state[3]!;
  const sum = (((a + b) | 0) + counter) | 0;
  state[0] = b ^ (b >>> 9);
  state[1] = c + (c << 3);
  state[2] = ((c << 21) | (c >>> 11)) + sum;
  state[3] = counter + 1;
  return sum >>> 0;
}

export function openRandom(...parts: readonly number[]): Random {
  const state = Int32Array.from(randomState(...parts));
  return () => nextRandom(state) / 2 ** 32;
}

/** Every order equally likely, as far as 32 bits a draw allow. */
export function permutation(length: number, random: Random): Uint32Array {
  const order = Uint32Array.from({ length }, (_, i) => i);
  for (let i = length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    const kept = order[i]!;
    order[i] = order[j]!;
    order[j] = kept;
  }
  return order;
}
