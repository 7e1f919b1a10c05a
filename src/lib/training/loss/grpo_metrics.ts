/**
 * Sums over completions that become a step's metrics. They can be joined in any order, because only the end divides.
 */
import { type Gap, gapMetrics, joinGaps, NO_GAP } from "./importance.ts";

export type GrpoTally = {
  loss: number;
  /** Completions with at least one active token. */
  samples: number;
  tokens: number;
  kl: number;
  klTokens: number;
  /** Sum of log p_student − log p_teacher over the drawn tokens. */
  teacherKl: number;
  teacherTokens: number;
  /** Sum of the divergences over the vocabulary. */
  divergence: number;
  divergenceTokens: number;
  entropy: number;
  entropyTokens: number;
  /** Number of tokens, or of completions if their tokens share a ratio. */
  ratios: number;
  ratioSum: number;
  ratioMin: number;
  ratioMax: number;
  clippedLow: number;
  clippedHigh: number;
  /** Extremes over completions of the share of clipped ratios. */
  lowMin: number;
  highMax: number;
  gap: Gap;
};

type Bounds = { epsilon: number; epsilonHigh: number };

export function newTally(tokens: number): GrpoTally {
  return {
    loss: 0,
    samples: tokens > 0 ? 1 : 0,
    tokens,
    kl: 0,
    klTokens: 0,
    teacherKl: 0,
    teacherTokens: 0,
    divergence: 0,
    divergenceTokens: 0,
    entropy: 0,
    entropyTokens: 0,
    ratios: 0,
    ratioSum: 0,
    ratioMin: Number.POSITIVE_INFINITY,
    ratioMax: Number.NEGATIVE_INFINITY,
    clippedLow: 0,
    clippedHigh: 0,
    lowMin: Number.POSITIVE_INFINITY,
    highMax: Number.NEGATIVE_INFINITY,
    gap: NO_GAP,
  };
}

/** A ratio counts as clipped if the bound removes the gradient: low with A < 0, high with A > 0. */
export function noteClips(tally: GrpoTally, ratio: number, advantage: number, { epsilon, epsilonHigh }: Bounds): void {
  tally.ratios++;
  tally.ratioSum += ratio;
  tally.ratioMin = Math.min(tally.ratioMin, ratio);
  tally.ratioMax = Math.max(tally.ratioMax, ratio);
  if (advantage < 0 && ratio < 1 - epsilon) tally.clippedLow++;
  if (advantage > 0 && ratio > 1 + epsilonHigh) tally.clippedHigh++;
  tally.lowMin = tally.clippedLow / tally.ratios;
  tally.highMax = tally.clippedHigh / tally.ratios;
}

const SUMS = [
  ...["loss", "samples", "tokens", "kl", "klTokens", "teacherKl", "teacherTokens", "entropy", "entropyTokens"],
  ...["divergence", "divergenceTokens", "ratios", "ratioSum", "clippedLow", "clippedHigh"],
] as Exclude<keyof GrpoTally, "gap">[];

export function joinTallies(tallies: readonly GrpoTally[]): GrpoTally {
  const joined = newTally(0);
  for (const tally of tallies) {
    for (const key of SUMS) joined[key] += tally[key];
    joined.ratioMin = Math.min(joined.ratioMin, tally.ratioMin);
    joined.ratioMax = Math.max(joined.ratioMax, tally.ratioMax);
    joined.lowMin = Math.min(joined.lowMin, tally.lowMin);
    joined.highMax = Math.max(joined.highMax, tally.highMax);
    joined.gap = joinGaps(joined.gap, tally.gap);
  }
  return joined;
}

/** Keys are TRL's; `ratio/*`, `teacher_kl` and `divergence` are ours. Unmeasured values have no key. */
export function grpoMetrics(tally: GrpoTally): Record<string, number> {
  const metrics: Record<string, number> = { loss: tally.loss };
  if (tally.klTokens > 0) metrics["kl"] = tally.kl / tally.klTokens;
  if (tally.teacherTokens > 0) metrics["teacher_kl"] = tally.teacherKl / tally.teacherTokens;
  if (tally.divergenceTokens > 0) metrics["divergence"] = tally.divergence / tally.divergenceTokens;
  if (tally.entropyTokens > 0) metrics["entropy"] = tally.entropy / tally.entropyTokens;
  if (tally.ratios > 0) {
    metrics["clip_ratio/low_mean"] = tally.clippedLow / tally.ratios;
    metrics["clip_ratio/low_min"] = tally.lowMin;
    metrics["clip_ratio/high_mean"] = tally.clippedHigh / tally.ratios;
    metrics["clip_ratio/high_max"] = tally.highMax;
    metrics["clip_ratio/region_mean"] = (tally.clippedLow + tally.clippedHigh) / tally.ratios;
    metrics["ratio/mean"] = tally.ratioSum / tally.ratios;
    metrics["ratio/min"] = tally.ratioMin;
    metrics["ratio/max"] = tally.ratioMax;
  }
  return { ...metrics, ...gapMetrics(tally.gap) };
}
