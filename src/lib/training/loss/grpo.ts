/**
 * GRPO: turns advantages and log probabilities of one completion into token weights, such that the gradient of Σ
 * w·(−log p) is that of the loss: w = −∂loss/∂logp. Formulas are TRL's (1.10). Completions are independent here. Only
 * `lossScales` depends on the whole step, and it needs only token counts. A step may therefore be computed in parts of
 * any size, with the same result.
 *
 * With a teacher, each token's advantage has −(log p_student − log p_teacher) too, a sample of the reverse KL: the
 * gradient is that of the KL of each next token, on what the student writes itself.
 */

import { type GrpoTally, newTally, noteClips } from "./grpo_metrics.ts";
import { type Correction, correct, NO_GAP } from "./importance.ts";

export const GRPO_LOSSES = ["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "gspo", "sapo"] as const;
export type GrpoLoss = (typeof GRPO_LOSSES)[number];
export const SAMPLING_LEVELS = ["token", "sequence"] as const;

export type GrpoOptions = {
  /**
   * `clip`: PPO's clipped ratio. `cispo`: the ratio, at most `epsilonHigh`, is a constant weight of the log probability.
   * `sapo`: a smooth gate instead of a bound.
   */
  surrogate: "clip" | "cispo" | "sapo";
  epsilon: number;
  epsilonHigh: number;
  /** Upper bound of the ratio for negative advantages (two-sided clipping); null: none. */
  delta: number | null;
  /** Temperatures of the gate of `sapo`, by the sign of the advantage. */
  sapoTemperatures: { positive: number; negative: number };
  beta: number;
  importanceSamplingLevel: (typeof SAMPLING_LEVELS)[number];
  correction: Correction | null;
  /** The KL term is multiplied by the ratio, so that its estimate is unbiased for samples of older weights. */
  correctsKl: boolean;
  /** A token with a negative advantage counts only if its completion is at most this far from the sampler, in nats. */
  offPolicyThreshold: number | null;
  /** Null: the teacher does not change the advantages. `clip`: nats. */
  distillation: { weight: number; clip: number } | null;
};

/** One completion. All arrays have one element per token of the completion. */
export type Rollout = {
  logp: ArrayLike<number>;
  /** Under the weights of the first pass over this batch. Null: this is the first pass. */
  logpOld: ArrayLike<number> | null;
  /** Required if beta is not 0. */
  logpRef: ArrayLike<number> | null;
  /** Required with `distillation`. Otherwise it is only measured. */
  logpTeacher: ArrayLike<number> | null;
  /** Reported by the engine that sampled it. Null: unknown, so there is no correction. */
  logpSampler: ArrayLike<number> | null;
  entropy: ArrayLike<number> | null;
  /** 0 if the advantage does not count for the token: see `uncertainTokens`. Null: it counts for all. */
  uncertain: Uint8Array | null;
  /** 1 if the token counts in the loss: see `activeTokens`. */
  active: Uint8Array;
  advantage: number;
};

export type WeighedRollout = { weights: Float32Array; loss: number; tally: GrpoTally };

type Fate = { tokens: number; written?: Uint8Array | undefined; scored: boolean; truncated: boolean };

/**
 * Returns the tokens that count in the loss. None if the completion has no reward, or is truncated with
 * `mask_truncated_completions` set. Otherwise those that the model wrote itself (`written`; default all).
 */
export function activeTokens({ tokens, written, scored, truncated }: Fate, maskTruncated: boolean): Uint8Array {
  if (!scored || (truncated && maskTruncated)) return new Uint8Array(tokens);
  return written === undefined
    ? new Uint8Array(tokens).fill(1)
    : Uint8Array.from(written, (isWritten) => (isWritten ? 1 : 0));
}

/**
 * Marks the tokens of a step whose entropy is among the highest `share`; they alone have an advantage. `active` and
 * `entropies` have one element per completion of the step.
 */
export function uncertainTokens(
  entropies: readonly ArrayLike<number>[],
  active: readonly Uint8Array[],
  share: number,
): Uint8Array[] {
  const all = Float64Array.from(entropies.flatMap((each, i) => Array.from(each).filter((_, t) => active[i]![t] === 1)));
  all.sort();
  const at = (1 - share) * (all.length - 1);
  const [low, high] = [all[Math.floor(at)] ?? 0, all[Math.ceil(at)] ?? 0];
  const least = low + (high - low) * (at - Math.floor(at)); // as torch.quantile
  return entropies.map((each) => Uint8Array.from(Array.from(each), (entropy) => (entropy >= least ? 1 : 0)));
}

type ScaleOptions = {
  lossType: GrpoLoss;
  /**
   * per_device_train_batch_size: bnpo counts tokens over this many adjacent completions, however memory splits a step.
   */
  batchSize: number;
  maxCompletionLength: number;
};

/**
 * Returns the factor of each completion's summed token losses, for one optimizer step. `counts` are active tokens. A
 * completion without any still counts if the mean is over completions (grpo, gspo, sapo, dr_grpo), as in TRL.
 */
export function lossScales(counts: readonly number[], options: ScaleOptions): Float64Array {
  const { lossType, batchSize, maxCompletionLength } = options;
  const samples = counts.length;
  const total = sum(counts);
  return Float64Array.from(counts, (count, i) => {
    switch (lossType) {
      case "grpo":
      case "gspo":
      case "sapo":
        return 1 / (Math.max(count, 1) * samples);
      case "dr_grpo":
        return 1 / (maxCompletionLength * samples);
      case "dapo":
      case "cispo":
        return 1 / Math.max(total, 1);
      case "bnpo": {
        const start = i - (i % batchSize);
        const batches = Math.ceil(samples / batchSize);
        return 1 / (Math.max(sum(counts.slice(start, start + batchSize)), 1) * batches);
      }
    }
  });
}

export function weighRollout(rollout: Rollout, scale: number, options: GrpoOptions): WeighedRollout {
  const { logp, active, logpRef, logpTeacher } = rollout;
  const old = rollout.logpOld ?? logp;
  const tokens = sum(active);
  const bySequence = options.importanceSamplingLevel === "sequence";
  const tally = newTally(tokens);
  const corrected =
    rollout.logpSampler === null ? null : correct({ old, sampler: rollout.logpSampler, active }, options.correction);
  tally.gap = corrected?.gap ?? NO_GAP;
  const { distillation } = options;
  if (distillation !== null && logpTeacher === null)
    throw new TypeError("A student needs its teacher's log probabilities");
  if (options.beta !== 0 && logpRef === null) throw new TypeError("beta needs the reference's log probabilities");

  const shared = bySequence ? meanLogRatio(logp, old, active) : 0;
  const { offPolicyThreshold: threshold } = options;
  const isFar = threshold !== null && -meanLogRatio(logp, rollout.logpSampler ?? old, active) > threshold;
  const klOfAll = bySequence && options.correctsKl && logpRef !== null ? meanKl(logpRef, logp, active) : 0;
  // The gradient flows through the shared ratio: each token's is the mean of theirs, so the correction is a mean too.
  // Under cispo the ratio is constant, and each token keeps its own correction.
  const sharesCorrection = bySequence && options.surrogate !== "cispo";
  const sharedCorrection = sharesCorrection && corrected !== null ? sum(corrected.ratios) / Math.max(tokens, 1) : 1;
  const weights = new Float32Array(active.length);
  for (let t = 0; t < active.length; t++) {
    if (!active[t]) continue;
    const logRatio = bySequence ? shared : logp[t]! - old[t]!;
    let { advantage } = rollout;
    if (logpTeacher !== null) {
      const gap = old[t]! - logpTeacher[t]!;
      tally.teacherKl += gap;
      tally.teacherTokens++;
      if (distillation !== null)
        advantage -= distillation.weight * Math.max(-distillation.clip, Math.min(gap, distillation.clip));
    }
    const policy = policyLoss({ logRatio, logp: logp[t]!, advantage }, options);
    const correction = sharesCorrection ? sharedCorrection : (corrected?.ratios[t] ?? 1);
    const isLeftOut = (isFar && advantage < 0) || rollout.uncertain?.[t] === 0;
    const counts = isLeftOut ? 0 : correction;
    let loss = policy.loss * counts;
    let slope = policy.slope * counts;
    if (logpRef !== null) {
      const kl = k3(logpRef[t]! - logp[t]!);
      tally.kl += kl.value;
      tally.klTokens++;
      const ratio = options.correctsKl ? ratioOf(logRatio) : 1;
      const flowing = options.correctsKl ? ratio * (bySequence ? klOfAll : kl.value) : 0; // through the ratio
      loss += options.beta * ratio * kl.value;
      slope += options.beta * (ratio * kl.slope + flowing);
    }
    tally.loss += scale * loss;
    tally.entropy += rollout.entropy?.[t] ?? 0;
    weights[t] = -scale * slope;
    if (!bySequence) noteClips(tally, ratioOf(logRatio), advantage, boundsOf(options));
  }
  if (bySequence && tokens > 0) noteClips(tally, ratioOf(shared), rollout.advantage, boundsOf(options));
  tally.entropyTokens = rollout.entropy === null ? 0 : tokens;
  return { weights, loss: tally.loss, tally };
}

/** Beyond this, exp would leave the range of a 32-bit weight. Only a broken model gets there. */
const MAX_EXPONENT = 20;
export const ratioOf = (logRatio: number) => Math.exp(Math.min(logRatio, MAX_EXPONENT));

type Policy = { loss: number; slope: number };

function policyLoss(of: { logRatio: number; logp: number; advantage: number }, options: GrpoOptions): Policy {
  const { logRatio, logp, advantage } = of;
  if (options.surrogate === "clip") return clippedLoss(logRatio, advantage, options);
  const ratio = ratioOf(logRatio);
  if (options.surrogate === "cispo") {
    const weight = Math.min(ratio, options.epsilonHigh) * advantage;
    return { loss: -weight * logp, slope: -weight };
  }
  const { positive, negative } = options.sapoTemperatures;
  const temperature = advantage > 0 ? positive : negative;
  const gate = 1 / (1 + Math.exp(-temperature * (ratio - 1)));
  const flows = logRatio <= MAX_EXPONENT;
  return {
    loss: (-4 / temperature) * gate * advantage,
    slope: flows ? -4 * gate * (1 - gate) * ratio * advantage : 0,
  };
}

/** The bounds that the metrics count. `cispo` has only an upper one, which is the ratio itself; `sapo` has none. */
function boundsOf({ surrogate, epsilon, epsilonHigh }: GrpoOptions) {
  if (surrogate === "clip") return { epsilon, epsilonHigh };
  return { epsilon: 1, epsilonHigh: surrogate === "cispo" ? epsilonHigh - 1 : Number.POSITIVE_INFINITY };
}

/** −min(min(r, δ)·A, clamp(r, 1−ε, 1+ε_high)·A) and its derivative by log r. */
export function clippedLoss(
  logRatio: number,
  advantage: number,
  options: Pick<GrpoOptions, "epsilon" | "epsilonHigh" | "delta">,
): Policy {
  const ratio = ratioOf(logRatio);
  const free = Math.min(ratio, options.delta ?? Number.POSITIVE_INFINITY);
  const kept = Math.min(Math.max(ratio, 1 - options.epsilon), 1 + options.epsilonHigh);
  const takesFree = free * advantage <= kept * advantage;
  const value = takesFree ? free : kept;
  const flows = value === ratio && logRatio <= MAX_EXPONENT; // the value of a bound is constant
  return { loss: -value * advantage, slope: flows ? -ratio * advantage : 0 };
}

/** e^d − d − 1 with d = logp_ref − logp, and its derivative by logp. Beyond e²⁰ it continues as a straight line. */
export function k3(difference: number): { value: number; slope: number } {
  const within = Math.min(difference, MAX_EXPONENT);
  const power = Math.exp(within);
  return { value: power * (1 + difference - within) - difference - 1, slope: 1 - power };
}

function meanLogRatio(logp: ArrayLike<number>, old: ArrayLike<number>, active: Uint8Array): number {
  let total = 0;
  let count = 0;
  for (let t = 0; t < active.length; t++) {
    if (!active[t]) continue;
    total += logp[t]! - old[t]!;
    count++;
  }
  return total / Math.max(count, 1);
}

function meanKl(logpRef: ArrayLike<number>, logp: ArrayLike<number>, active: Uint8Array): number {
  let total = 0;
  for (let t = 0; t < active.length; t++) if (active[t]) total += k3(logpRef[t]! - logp[t]!).value;
  return total / Math.max(sum(active), 1);
}

function sum(values: ArrayLike<number>): number {
  let total = 0;
  for (let i = 0; i < values.length; i++) total += values[i]!;
  return total;
}
