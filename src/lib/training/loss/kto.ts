/**
 * KTO: learns from single answers that are labelled good or bad. Turns log probabilities of an answer, under the model
 * and the reference, into token weights (w = −∂loss/∂logp). The baseline is an estimate of the KL to the reference, which
 * is constant for the gradient. Formulas are TRL's (KTOTrainer).
 */

export const KTO_LOSSES = ["kto", "apo_zero_unpaired"] as const;
export type KtoLoss = (typeof KTO_LOSSES)[number];

export type KtoOptions = { lossType: KtoLoss; beta: number; desirableWeight: number; undesirableWeight: number };

/** Log probabilities of an answer's tokens under the model and the reference. */
export type Compared = { logp: ArrayLike<number>; logpRef: ArrayLike<number> };
export type LabelledAnswer = Compared & { isGood: boolean };

export type KtoTally = { isGood: boolean; loss: number; reward: number; logp: number };

/**
 * Returns the mean log ratio of answers under prompts that they do not belong to, at least 0. A model that only became
 * surer of everything has a high one.
 */
export function klEstimate(mismatched: readonly Compared[]): number {
  const total = mismatched.reduce((sum, each) => sum + logRatioOf(each), 0);
  return Math.max(0, total / Math.max(1, mismatched.length));
}

/** `scale` is 1 / the number of answers in the optimizer step. */
export function weighAnswer(
  { isGood, ...answer }: LabelledAnswer,
  { kl, scale }: { kl: number; scale: number },
  options: KtoOptions,
): { weights: Float32Array; tally: KtoTally } {
  const { beta, lossType } = options;
  const logRatio = logRatioOf(answer);
  const baseline = lossType === "kto" ? kl : 0;
  const sign = isGood ? 1 : -1;
  // Both losses are 1 − σ(β·(r − kl)) for a good answer and 1 − σ(β·(kl − r)) for a bad one.
  const value = 1 / (1 + Math.exp(-sign * beta * (logRatio - baseline)));
  const weight = scale * (isGood ? options.desirableWeight : options.undesirableWeight);
  const slope = weight * sign * beta * value * (1 - value);
  return {
    weights: new Float32Array(answer.logp.length).fill(slope),
    tally: { isGood, loss: weight * (1 - value), reward: beta * logRatio, logp: sum(answer.logp) },
  };
}

const sum = (values: ArrayLike<number>) => Array.from(values).reduce((a, b) => a + b, 0);
const logRatioOf = ({ logp, logpRef }: Compared) => sum(logp) - sum(logpRef);

/** Metrics over all answers of a step, with TRL's names. A mean over no answers has no key. */
export function ktoMetrics(tallies: readonly KtoTally[], kl: number): Record<string, number> {
  const metrics: Record<string, number> = { loss: tallies.reduce((all, { loss }) => all + loss, 0), kl };
  for (const [name, isGood] of [
    ["chosen", true],
    ["rejected", false],
  ] as const) {
    const group = tallies.filter((tally) => tally.isGood === isGood);
    if (group.length === 0) continue;
    metrics[`rewards/${name}`] = group.reduce((all, { reward }) => all + reward, 0) / group.length;
    metrics[`logps/${name}`] = group.reduce((all, { logp }) => all + logp, 0) / group.length;
  }
  const { "rewards/chosen": chosen, "rewards/rejected": rejected } = metrics;
  if (chosen !== undefined && rejected !== undefined) metrics["rewards/margins"] = chosen - rejected;
  return metrics;
}
