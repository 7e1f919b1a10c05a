/** What ends a job: rules over what its steps did. Pure; the loop asks after every step. */

export type Verdict = { code: "no_effective_update" | "reward_error"; message: string };

/** What one optimizer step did to the weights. */
export type StepEffect = {
  step: number;
  learningRate: number;
  /** Largest |advantage|; null where the method has none. */
  maxAdvantage: number | null;
  /** Not finite for a step that was not applied. */
  gradNorm: number;
  /** Whether any trained weight is another number than before. */
  changed: boolean;
};

/** So many steps in a row without effect end a job. */
export const IDLE_STEPS = 20;

type Judging = {
  limit?: number;
  /** Whether any step of the whole job taught something, also one that the history no longer has. */
  hasLearned?: boolean;
};

/**
 * A job that trains nothing must not cost until its end. Steps at learning rate 0 (the first of a warmup, the last of
 * a decay) are meant to change nothing and are passed over. A job that has learned until every reward was the same is
 * no such job: what it learned is its result.
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
  "every completion of a group got the same reward, or none. Make the reward finer, the prompts easier or harder, or raise temperature or num_generations";

function causeOf({ maxAdvantage, gradNorm, changed }: StepEffect): string | null {
  if (maxAdvantage === 0) return SAME_REWARD;
  if (!Number.isFinite(gradNorm))
    return "the gradient was not a number, and the steps were not applied. Lower learning_rate or raise beta";
  if (gradNorm === 0 && maxAdvantage !== null)
    return "no completion with an advantage counted. Raise max_completion_length where all are cut off, or unset mask_truncated_completions";
  if (gradNorm === 0) return "the gradient was 0. Check that the rows have text to learn from within max_length";
  if (!changed) return "the updates were too small for the weights' precision. Raise learning_rate";
  return null;
}

/** More than this share of a step's samples without a reward by an error ends the job. */
export const MAX_REWARD_ERRORS = 0.2;

export type RewardFaults = {
  samples: number;
  /** Without a reward: the code raised, ran out of time, gave None, NaN or a wrong shape. */
  errored: number;
  /** The first of them, in words. */
  example: string | null;
};

export function judgeRewards({ samples, errored, example }: RewardFaults): Verdict | null {
  if (errored === 0 || errored <= MAX_REWARD_ERRORS * samples) return null;
  const share = Math.round((100 * errored) / samples);
  const message = `The reward failed for ${errored} of ${samples} completions of a step (${share} %)`;
  return { code: "reward_error", message: example === null ? message : `${message}. The first: ${example}` };
}
