/**
 * Truncated importance sampling. The sampling and the training engine compute slightly different probabilities for the
 * same weights. The bounded ratio ρ = exp(logp_old − logp_sampler) corrects this; it is constant for the gradient.
 * Modes are TRL's (there with the prefix `vllm_`).
 */

export const CORRECTION_MODES = ["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"] as const;
export type CorrectionMode = (typeof CORRECTION_MODES)[number];

export type Correction = { mode: CorrectionMode; clipMin: number | null; clipMax: number | null };

export type CorrectedTokens = {
  /** Factors of each token's policy loss. */
  ratios: Float64Array;
  /** Sums over active tokens (of |logp_old − logp_sampler|), and of the used ratios. */
  gap: Gap;
};

export type Gap = {
  tokens: number;
  sum: number;
  max: number;
  ratios: number;
  ratioSum: number;
  ratioMin: number;
  ratioMax: number;
};

export const NO_GAP: Gap = {
  tokens: 0,
  sum: 0,
  max: 0,
  ratios: 0,
  ratioSum: 0,
  ratioMin: Number.POSITIVE_INFINITY,
  ratioMax: Number.NEGATIVE_INFINITY,
};

type Pair = { old: ArrayLike<number>; sampler: ArrayLike<number>; active: Uint8Array };

/** Beyond e²⁰ a ratio comes from a broken sample. It must not become infinite when it is unbounded. */
const MAX_EXPONENT = 20;

/** Without a correction every ratio is 1, and the gap is only measured. */
export function correct({ old, sampler, active }: Pair, correction: Correction | null): CorrectedTokens {
  const ratios = new Float64Array(active.length);
  const isSequence = correction?.mode.startsWith("sequence") ?? false;
  const gap = { ...NO_GAP };
  let whole = 0;
  for (let t = 0; t < active.length; t++) {
    if (!active[t]) continue;
    const difference = old[t]! - sampler[t]!;
    gap.tokens++;
    gap.sum += Math.abs(difference);
    gap.max = Math.max(gap.max, Math.abs(difference));
    whole += difference;
    if (correction === null) ratios[t] = 1;
    else if (!isSequence) {
      ratios[t] = bounded(difference, correction);
      note(gap, ratios[t]!);
    }
  }
  if (correction !== null && isSequence && gap.tokens > 0) {
    const ratio = bounded(whole, correction);
    for (let t = 0; t < active.length; t++) if (active[t]) ratios[t] = ratio;
    note(gap, ratio);
  }
  return { ratios, gap };
}

function bounded(logRatio: number, { mode, clipMin, clipMax }: Correction): number {
  const ratio = Math.exp(Math.min(logRatio, MAX_EXPONENT));
  const low = clipMin ?? Number.NEGATIVE_INFINITY;
  const high = clipMax ?? Number.POSITIVE_INFINITY;
  if (ratio >= low && ratio <= high) return ratio;
  return mode.endsWith("truncate") ? Math.min(Math.max(ratio, low), high) : 0;
}

function note(gap: Gap, ratio: number): void {
  gap.ratios++;
  gap.ratioSum += ratio;
  gap.ratioMin = Math.min(gap.ratioMin, ratio);
  gap.ratioMax = Math.max(gap.ratioMax, ratio);
}

export function joinGaps(a: Gap, b: Gap): Gap {
  return {
    tokens: a.tokens + b.tokens,
    sum: a.sum + b.sum,
    max: Math.max(a.max, b.max),
    ratios: a.ratios + b.ratios,
    ratioSum: a.ratioSum + b.ratioSum,
    ratioMin: Math.min(a.ratioMin, b.ratioMin),
    ratioMax: Math.max(a.ratioMax, b.ratioMax),
  };
}

export function gapMetrics(gap: Gap): Record<string, number> {
  const metrics: Record<string, number> = {};
  if (gap.tokens > 0) {
    metrics["sampling/sampling_logp_difference/mean"] = gap.sum / gap.tokens;
    metrics["sampling/sampling_logp_difference/max"] = gap.max;
  }
  if (gap.ratios > 0) {
    metrics["sampling/importance_sampling_ratio/mean"] = gap.ratioSum / gap.ratios;
    metrics["sampling/importance_sampling_ratio/min"] = gap.ratioMin;
    metrics["sampling/importance_sampling_ratio/max"] = gap.ratioMax;
  }
  return metrics;
}
