/** The objectives of GRPO and RLOO: advantages of the completions of a generation, then token weights. */

import { advantagesOf, advantagesOfEach, type WeighedRewards } from "../../../lib/training/loss/advantages.ts";
import {
  activeTokens,
  lossScales,
  type Rollout,
  type WeighedRollout,
  weighRollout,
} from "../../../lib/training/loss/grpo.ts";
import { newTally } from "../../../lib/training/loss/grpo_metrics.ts";
import { leaveOneOut, penalized, weighCompletion } from "../../../lib/training/loss/rloo.ts";
import { grpoOptions, scaleOptions } from "../../../lib/training/plan.ts";
import type { Resolved } from "../../../lib/training/resolve.ts";
import type { Drawn } from "./rollout.ts";
import type { RolledValues } from "./types.ts";

export type Objective = {
  /** True if `advantages` compares the log-probabilities of the model (`old`) and of the reference. */
  readonly penalizes: boolean;
  advantages: (samples: readonly Drawn[]) => ArrayLike<number>;
  /** The factor of each completion's loss, from the numbers of active tokens of all completions of a step. */
  scales: (counts: readonly number[]) => ArrayLike<number>;
  weigh: (rollout: Rollout, scale: number) => WeighedRollout;
};

/** Without rewards all completions count. */
export const activeOf = (
  { tokens, from, written, reward, truncated }: Drawn,
  values: RolledValues,
  isRewarded = true,
) =>
  activeTokens(
    { tokens: tokens.length - from, written: written ?? undefined, scored: !isRewarded || reward !== null, truncated },
    values.mask_truncated_completions,
  );

/** Also of distillation, whose teacher adds to the advantages of the tokens. */
export function grpoObjective(values: Resolved<"grpo"> | Resolved<"distill">): Objective {
  const options = grpoOptions(values);
  const scaling = scaleOptions(values);
  const spread = { numGenerations: values.num_generations, scaleRewards: values.scale_rewards };
  return {
    penalizes: false,
    advantages: (samples) => {
      const rewards = samples.map(({ reward }) => reward);
      return values.multi_objective_aggregation === "normalize_then_sum"
        ? advantagesOfEach(rewards, byFunction(samples), values.num_generations)
        : advantagesOf(rewards, spread).values;
    },
    scales: (counts) => lossScales(counts, scaling),
    weigh: (rollout, scale) => weighRollout(rollout, scale, options),
  };
}

/** The rewards of each function. One without a weight counts once. */
function byFunction(samples: readonly Drawn[]): WeighedRewards[] {
  const weights = Object.assign({}, ...samples.map((each) => each.weights)) as Record<string, number>;
  const names = new Set(samples.flatMap(({ subRewards }) => Object.keys(subRewards)));
  return [...names].map((name) => ({
    weight: weights[name] ?? 1,
    rewards: samples.map(({ subRewards }) => subRewards[name] ?? null),
  }));
}

/** Answers to learn: all active tokens of a step have the same weight. */
export function answersObjective(): Objective {
  return {
    penalizes: false,
    advantages: (samples) => samples.map(() => 0),
    scales: (counts) => {
      const total = counts.reduce((sum, count) => sum + count, 0);
      return counts.map(() => 1 / Math.max(total, 1));
    },
    weigh: ({ logp, active, entropy, logpSampler }, scale) => {
      const tally = newTally(active.reduce((sum, each) => sum + each, 0));
      const weights = Float32Array.from(active, (counts) => (counts ? scale : 0));
      active.forEach((counts, t) => {
        if (!counts) return;
        tally.loss -= scale * logp[t]!;
        tally.entropy += entropy?.[t] ?? 0;
        tally.entropyTokens += entropy ? 1 : 0;
        tally.teacherKl += logpSampler ? logpSampler[t]! - logp[t]! : 0;
        tally.teacherTokens += logpSampler ? 1 : 0;
      });
      return { weights, loss: tally.loss, tally };
    },
  };
}

export function rlooObjective(values: Resolved<"rloo">): Objective {
  const bounds = { epsilon: values.epsilon, epsilonHigh: values.epsilon_high };
  const penalty = { beta: values.beta, clipRange: values.reward_clip_range };
  const compare = { numGenerations: values.num_generations, normalize: values.normalize_advantages };
  return {
    penalizes: values.beta !== 0,
    advantages: (samples) =>
      leaveOneOut(
        samples.map((sample) =>
          penalized(
            sample.reward,
            { logp: sample.old, logpRef: sample.reference, active: activeOf(sample, values) },
            penalty,
          ),
        ),
        compare,
      ),
    scales: (counts) => counts.map(() => 1 / counts.length),
    weigh: (rollout, scale) => weighCompletion(rollout, scale, bounds),
  };
}
