/**
 * Sizes and seeds of the random sweeps. A push runs the quick size with a new seed, so that every run tries other
 * histories. `./scripts/test --full` runs the full size. `VERK_TEST_SEED=N` repeats a run: a failure names the seed.
 */
import { openRandom, permutation, type Random, seedOf } from "../src/lib/random.ts";

export const IS_FULL = process.env["VERK_TEST_FULL"] === "1";

/** `sweep({ quick: 1_000, full: 10_000 })`: how many to try in this run. */
export const sweep = (sizes: { quick: number; full: number }): number => (IS_FULL ? sizes.full : sizes.quick);

function chooseSeed(): number {
  const given = process.env["VERK_TEST_SEED"];
  if (given === undefined || given === "") {
    const drawn = crypto.getRandomValues(new Uint32Array(1))[0]!;
    console.error(`seed ${drawn}: VERK_TEST_SEED=${drawn} repeats this run`);
    return drawn;
  }
  const seed = Number(given);
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error(`VERK_TEST_SEED must be a whole number, not "${given}"`);
  return seed;
}

export const SEED = chooseSeed();

/** All in a full run; in a quick one a share of them, drawn anew in each run, in their order. At least one. */
export function sampleOf<T>(use: string, all: readonly T[], share: number): T[] {
  if (IS_FULL) return [...all];
  const order = permutation(all.length, randomFor(use)).slice(0, Math.max(1, Math.round(all.length * share)));
  return [...order].sort((a, b) => a - b).map((i) => all[i] as T);
}

/** Other numbers for each `use`, so that two sweeps do not try the same things. Below 2^32. */
export const seedFor = (use: string): number => seedOf(SEED, Bun.hash.crc32(use));
export const randomFor = (use: string): Random => openRandom(seedFor(use));
