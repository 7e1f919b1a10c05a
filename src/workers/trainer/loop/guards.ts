/** Rules that end a job because of the effects of its steps. Pure; the loop checks them after every step. */

export type Verdict = { code: "no_effective_update" | "reward_error"; message: string };

/** The effect of one optimizer step on the weights. */
export type StepEffect = {
  step: number;
  learningRate: number;
  /** Largest |advantage|; null if the method has none. */
  maxAdvantage: number | null;
  /** Not finite if the step was not applied. */
  gradNorm: number;
  /** True if a trained weight changed. */
  changed: boolean;
};

/** This many steps in a row without effect end a job. */
export const IDLE_STEPS = 20;

type Judging = {
  limit?: number;
  /** True if any step of the whole job changed the model, even one that the history no longer holds. */
  hasLearned?: boolean;
};

/**
 * A job that trains nothing must not cost money until its end. Steps at learning rate 0 (first of a warmup, last of a
 * decay) change nothing on purpose and are ignored. A job that learned until all rewards were equal is not failed: its
 * weights are its result.
 */
export function judgeEffect(history: readonly StepEffect[], judging: Judging = {}): Verdict | null {
  const { limit = IDLE_STEPS, hasLearned = false } = judging;
  let idle = 0;
  const seen = new Map<string, number>();
  for (let i = history.length - 1; i >= 0 && idle < limit; i--) {
    const effect = history[i]!;
    if (effect.learningRate === 0) continue;
    const cause = causeOf(effect);
    if (cause === null) return null;
    seen.set(cause, (seen.get(cause) ?? 0) + 1);
    idle++;
  }
  if (idle < limit) return null;
  const [cause] = [...seen].sort(([, a], [, b]) => b - a)[0]!;
  if (cause === SAME_REWARD && hasLearned) return null;
  return { code: "no_effective_update", message: `${limit} steps in a row changed no weight: ${cause}` };
}

export const taught = (effect: StepEffect) => effect.learningRate > 0 && causeOf(effect) === null;

const SAME_REWARD =
  "every completion of a group got the same reward, or none. Make the reward finer, use easier or harder prompts, or raise temperature or num_generations";

function causeOf({ maxAdvantage, gradNorm, changed }: StepEffect): string | null {
  if (maxAdvantage === 0) return SAME_REWARD;
  if (!Number.isFinite(gradNorm))
    return "the gradient was not a finite number, so the steps were not applied. Lower learning_rate or raise beta";
  if (gradNorm === 0 && maxAdvantage !== null)
    return "no completion with an advantage counted. Raise max_completion_length if all are truncated, or unset mask_truncated_completions";
  if (gradNorm === 0) return "the gradient was 0. Check that the rows have text to learn from within max_length";
  if (!changed) return "the updates were too small for the weights' precision. Raise learning_rate";
  return null;
}

/** A job ends if more than this share of a step's samples has no reward because of errors. */
const MAX_REWARD_ERRORS = 0.2;

export type RewardFaults = {
  samples: number;
  /** Samples without a reward: the code raised, timed out, or returned None, NaN or a wrong shape. */
  errored: number;
  /** The first error message. */
  example: string | null;
};

export function judgeRewards({ samples, errored, example }: RewardFaults): Verdict | null {
  if (errored <= MAX_REWARD_ERRORS * samples) return null;
  const share = Math.round((100 * errored) / samples);
  const message = `The reward failed for ${errored} of ${samples} completions of a step (${share} %)`;
  return { code: "reward_error", message: example === null ? message : `${message}. First error: ${example}` };
}
