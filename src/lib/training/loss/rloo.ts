/**
 * RLOO (REINFORCE, leave one out): the baseline of a completion is the mean reward of the others of its group. The ratio
 * is that of whole completions, and the KL penalty is part of the reward. Formulas are TRL's (RLOOTrainer).
 */
import { cleaned, EPSILON, type Reward, spreadOf, ZERO_STD } from "./advantages.ts";
import { clippedLoss, type Rollout, ratioOf, type WeighedRollout } from "./grpo.ts";
import { newTally, noteClips } from "./grpo_metrics.ts";
import { correct, NO_GAP } from "./importance.ts";

export type LeaveOneOutOptions = {
  numGenerations: number;
  /** Scale the advantages of all samples together to mean 0 and deviation 1. */
  normalize: boolean;
};

/** Samples of a group are adjacent. A sample without a reward is in no baseline and has advantage 0. */
export function leaveOneOut(rewards: readonly Reward[], options: LeaveOneOutOptions): Float64Array {
  const { numGenerations, normalize } = options;
  const usable = rewards.map(cleaned);
  const values = usable.map((): Reward => null);
  for (let start = 0; start < usable.length; start += numGenerations) {
    const group = usable.slice(start, start + numGenerations);
    const { count, mean, std } = spreadOf(group);
    group.forEach((reward, i) => {
      if (reward === null || std === null) return; // a single reward has no others to be compared with
      // r − (sum − r) / (n − 1), written so that equal rewards give exactly 0
      values[start + i] = std > ZERO_STD ? ((reward - mean) * count) / (count - 1) : 0;
    });
  }
  const { mean, std } = spreadOf(values);
  return Float64Array.from(values, (value) => {
    if (value === null) return 0;
    return normalize ? (value - mean) / ((std ?? 0) + EPSILON) : value;
  });
}

export type PenaltyOptions = { beta: number; clipRange: readonly [number, number] | null };
type Compared = { logp: ArrayLike<number> | null; logpRef: ArrayLike<number> | null; active: Uint8Array };

/** The reward, bounded, minus β times the summed log ratio to the reference. */
export function penalized(reward: Reward, { logp, logpRef, active }: Compared, options: PenaltyOptions): Reward {
  const usable = cleaned(reward);
  if (usable === null) return null;
  const [least, most] = options.clipRange ?? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  const bounded = Math.min(Math.max(usable, least), most);
  if (options.beta === 0) return bounded;
  if (logp === null || logpRef === null) throw new TypeError("beta needs log probabilities of model and reference");
  let kl = 0;
  for (let t = 0; t < active.length; t++) if (active[t]) kl += logp[t]! - logpRef[t]!;
  return bounded - options.beta * kl;
}

type Bounds = { epsilon: number; epsilonHigh: number };

/** `scale` is 1 / the number of completions in the optimizer step. */
export function weighCompletion(rollout: Rollout, scale: number, bounds: Bounds): WeighedRollout {
  const { logp, logpRef, active, advantage, entropy } = rollout;
  const old = rollout.logpOld ?? logp;
  const tokens = active.reduce((sum, each) => sum + each, 0);
  const tally = newTally(tokens);
  let logRatio = 0;
  for (let t = 0; t < active.length; t++) {
    if (!active[t]) continue;
    logRatio += logp[t]! - old[t]!;
    tally.entropy += entropy?.[t] ?? 0;
    if (logpRef !== null) tally.kl += logp[t]! - logpRef[t]!;
  }
  tally.klTokens = logpRef === null ? 0 : tokens;
  tally.entropyTokens = entropy === null ? 0 : tokens;
  const { logpSampler: sampler } = rollout;
  tally.gap = sampler === null ? NO_GAP : correct({ old, sampler, active }, null).gap;
  const { loss, slope } = clippedLoss(logRatio, advantage, { ...bounds, delta: null });
  tally.loss = scale * loss;
  if (tokens > 0) noteClips(tally, ratioOf(logRatio), advantage, bounds);
  // The log ratio is a sum over the tokens, so each has its whole slope.
  return { weights: Float32Array.from(active, (isActive) => (isActive ? -scale * slope : 0)), loss: tally.loss, tally };
}
