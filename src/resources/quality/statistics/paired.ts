import { openRandom } from "../../../lib/random.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { mean, standardError } from "./describe.ts";
import { fairCoins, studentTwoSided } from "./distributions.ts";

/**
 * Two-sided tests of pairs. Each takes the differences (candidate − baseline), one for each item.
 * A sample that can show nothing (too few pairs, all differences zero) gives `p` 1.
 */
export type PairedTest = { statistic: number; p: number /** Pairs that entered the statistic. */; n: number };

/** `candidate[i] − baseline[i]`. Both lists have the same length. */
export function differences(candidate: readonly number[], baseline: readonly number[]): number[] {
  if (candidate.length !== baseline.length) throw new RangeError("paired lists differ in length");
  return candidate.map((value, i) => value - baseline[i]!);
}

/** The paired t-test. The statistic is t with n − 1 degrees of freedom. */
export function pairedT(deltas: readonly number[]): PairedTest {
  const n = deltas.length;
  if (n < 2 || deltas.every((d) => d === 0)) return { statistic: 0, p: 1, n };
  const statistic = mean(deltas) / standardError(deltas);
  return { statistic, p: studentTwoSided(statistic, n - 1), n };
}

/**
 * McNemar's exact test of paired yes/no results. `gained`: items that only the candidate passed; `lost`: items that only
 * the baseline passed. The statistic is the smaller count.
 */
export function mcnemar({ gained, lost }: { gained: number; lost: number }): PairedTest {
  const statistic = Math.min(gained, lost);
  const n = gained + lost;
  return { statistic, p: n === 0 ? 1 : Math.min(1, 2 * fairCoins(statistic, n)), n };
}

/** Up to this many non-zero differences every sign pattern is tried (65,536 of them). */
const SIGN_FLIP_EXACT_PAIRS = 16;

/**
 * The sign-flip permutation test. The statistic is the mean difference. Small samples try every pattern of signs; larger
 * ones draw `resamples` patterns from the seed, and p counts the observed pattern too, so it is never 0.
 */
export async function signFlip(
  deltas: readonly number[],
  options: { seed: number; resamples?: number },
): Promise<PairedTest & { exact: boolean }> {
  const moved = deltas.filter((d) => d !== 0);
  const n = deltas.length;
  const exact = moved.length <= SIGN_FLIP_EXACT_PAIRS;
  if (moved.length === 0) return { statistic: 0, p: 1, n, exact };
  const observed = moved.reduce((sum, d) => sum + d, 0);
  const scale = moved.reduce((sum, d) => sum + Math.abs(d), 0);
  const limit = Math.abs(observed) - scale * 1e-12; // sums in another order differ in the last bits
  const statistic = observed / n;
  if (exact) return { statistic, p: extremePatterns(moved, limit) / 2 ** moved.length, n, exact };
  const resamples = options.resamples ?? 10_000;
  const random = openRandom(options.seed);
  let extreme = 1;
  const turn = takingTurns();
  for (let i = 0; i < resamples; i++) {
    await turn();
    let sum = 0;
    for (const d of moved) sum += random() < 0.5 ? d : -d;
    if (Math.abs(sum) >= limit) extreme++;
  }
  return { statistic, p: extreme / (resamples + 1), n, exact };
}

function extremePatterns(moved: readonly number[], limit: number, index = 0, sum = 0): number {
  if (index === moved.length) return Math.abs(sum) >= limit ? 1 : 0;
  const d = moved[index]!;
  return extremePatterns(moved, limit, index + 1, sum + d) + extremePatterns(moved, limit, index + 1, sum - d);
}
