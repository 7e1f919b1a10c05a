import { openRandom } from "../../../lib/random.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { mean, standardError } from "./describe.ts";
import { fairCoins, normalTwoSided, studentTwoSided } from "./distributions.ts";

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

export type Wilcoxon = PairedTest & { positive: number; negative: number; exact: boolean };

/** Up to this many pairs the distribution of the rank sum is computed, beyond it is the normal one. */
const WILCOXON_EXACT_PAIRS = 100;

/**
 * Wilcoxon's signed-rank test. Ties share their mean rank. The statistic is the smaller rank sum.
 * `zeroes`: "drop" leaves pairs without a difference out before ranking; "pratt" ranks them first, then leaves them out.
 */
export function wilcoxon(deltas: readonly number[], zeroes: "drop" | "pratt" = "drop"): Wilcoxon {
  const considered = zeroes === "drop" ? deltas.filter((d) => d !== 0) : deltas;
  const ranks = midRanks(considered.map(Math.abs));
  const kept = considered.flatMap((d, i) => (d === 0 ? [] : [{ rank: ranks[i]!, up: d > 0 }]));
  const total = kept.reduce((sum, { rank }) => sum + rank, 0);
  const positive = kept.reduce((sum, { rank, up }) => sum + (up ? rank : 0), 0);
  const negative = total - positive;
  const statistic = Math.min(positive, negative);
  const n = kept.length;
  const exact = n <= WILCOXON_EXACT_PAIRS;
  if (n === 0) return { statistic: 0, p: 1, n, positive, negative, exact };
  const squares = kept.reduce((sum, { rank }) => sum + rank * rank, 0);
  // The variance given the ranks, so that it holds with ties too.
  const p = exact
    ? Math.min(
        1,
        2 *
          rankSumAtMost(
            statistic,
            kept.map(({ rank }) => rank),
          ),
      )
    : normalTwoSided((statistic - total / 2) / Math.sqrt(squares / 4));
  return { statistic, p, n, positive, negative, exact };
}

/** Ranks from 1; equal values share the mean of their ranks. */
function midRanks(values: readonly number[]): number[] {
  const order = values.map((_, i) => i).sort((a, b) => values[a]! - values[b]!);
  const ranks = new Array<number>(values.length);
  for (let start = 0; start < order.length; ) {
    let end = start + 1;
    while (end < order.length && values[order[end]!] === values[order[start]!]) end++;
    for (let i = start; i < end; i++) ranks[order[i]!] = (start + 1 + end) / 2;
    start = end;
  }
  return ranks;
}

/** P(sum of the ranks with a positive sign ≤ limit) when every sign is a fair coin. Ranks are multiples of 1/2. */
function rankSumAtMost(limit: number, ranks: readonly number[]): number {
  const doubled = ranks.map((rank) => Math.round(rank * 2));
  const chances = new Float64Array(doubled.reduce((sum, rank) => sum + rank, 0) + 1);
  chances[0] = 1;
  let reached = 0;
  for (const rank of doubled) {
    reached += rank;
    for (let sum = reached; sum >= 0; sum--)
      chances[sum] = (chances[sum]! + (sum >= rank ? chances[sum - rank]! : 0)) / 2;
  }
  return chances.subarray(0, Math.round(limit * 2) + 1).reduce((sum, chance) => sum + chance, 0);
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
