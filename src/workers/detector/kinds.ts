/**
 * Calibration by kind of content. A model that is right about drawings and wrong about faces needs two curves. A linear map
 * tells the kinds from the features. The score is the mean over the kinds, each by its probability, so that no image
 * falls from one curve onto another.
 */
import { z } from "zod";
import { Curve, calibratePooled } from "../../lib/detection/curve.ts";

export const Kinds = z
  .object({
    names: z.array(z.string().min(1)).min(1),
    /** One row of weights for each kind. */
    weight: z.array(z.array(z.number())),
    bias: z.array(z.number()),
    /** A kind without a curve uses that of all images. */
    curves: z.record(z.string(), Curve),
  })
  .refine(
    ({ names, weight, bias }) => weight.length === names.length && bias.length === names.length,
    "expected one row of weight and one bias for each name",
  );
export type Kinds = z.infer<typeof Kinds>;

/** The probability of each kind, in the order of the names. */
export function kindShares(features: ArrayLike<number>, { weight, bias }: Kinds): number[] {
  const logits = weight.map((row, k) => row.reduce((sum, factor, i) => sum + factor * (features[i] ?? 0), bias[k]!));
  const highest = Math.max(...logits);
  const powers = logits.map((logit) => Math.exp(logit - highest));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

export function scoreByKind(pooled: number, features: ArrayLike<number>, all: Curve & { kinds: Kinds }): number {
  const { names, curves } = all.kinds;
  const shares = kindShares(features, all.kinds);
  return names.reduce((sum, name, k) => sum + shares[k]! * calibratePooled(pooled, curves[name] ?? all), 0);
}
