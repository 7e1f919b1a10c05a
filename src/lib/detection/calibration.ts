/**
 * Turns the logits of crops into one calibrated score: pooled, divided by a temperature, then mapped by a monotonic
 * table. The JSON file beside a model's weights holds the parameters; training computes the same
 * (`scripts/detector/calibrate.py`).
 */
import { z } from "zod";
import { Curve, calibratePooled } from "./curve.ts";
import { Kinds, scoreByKind } from "./kinds.ts";
import { isUnlike, Unlike } from "./unlike.ts";

/** Pools the logits of one image, highest first. `top_k` and `top_fraction` take the mean of the highest. */
export const Pooling = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("mean") }),
  z.object({ kind: z.literal("top_k"), k: z.int().positive() }),
  z.object({ kind: z.literal("top_fraction"), fraction: z.number().gt(0).max(1) }),
  /** Weights are proportional to exp(beta · logit): 0 gives the mean, a large beta the maximum. */
  z.object({ kind: z.literal("softmax"), beta: z.number().min(0) }),
]);
export type Pooling = z.infer<typeof Pooling>;

export const Calibration = Curve.extend({
  version: z.string().min(1),
  pooling: Pooling,
  /** Curves by kind of content, which the features tell. Without them one curve is for all images. */
  kinds: Kinds.optional(),
  /** Describes the features of the training images. Without it no image is called unlike training. */
  unlike: Unlike.optional(),
  /** The score from which on the tier `ai` was right in 95 of 100 cross-validated images. Null: never. */
  tiers: z.object({ ai: z.number().min(0).max(1).nullable() }).optional(),
});
export type Calibration = z.infer<typeof Calibration>;

export function pool(logits: ArrayLike<number>, pooling: Pooling): number {
  const sorted = Array.from(logits).sort((a, b) => b - a);
  if (sorted.length === 0) throw new Error("There are no logits to pool");
  switch (pooling.kind) {
    case "mean":
      return mean(sorted);
    case "top_k":
      return mean(sorted.slice(0, pooling.k));
    case "top_fraction":
      return mean(sorted.slice(0, Math.max(1, Math.ceil(pooling.fraction * sorted.length))));
    case "softmax": {
      const weights = sorted.map((logit) => Math.exp(pooling.beta * (logit - sorted[0]!)));
      return sorted.reduce((sum, logit, i) => sum + logit * weights[i]!, 0) / weights.reduce((a, b) => a + b, 0);
    }
  }
}

/** The mean features of an image. Undefined: the model does not return them, or nothing needs them. */
export type Features = ArrayLike<number> | undefined;
export type Judgement = { score: number; unlike: boolean };

/** Judges one image by the logits and the features of its crops. Throws if a model returned NaN. */
export function judgeImage(logits: ArrayLike<number>, features: Features, calibration: Calibration): Judgement {
  const { pooling, kinds, unlike } = calibration;
  const pooled = pool(logits, pooling);
  return {
    score:
      kinds && features
        ? scoreByKind(pooled, features, { ...calibration, kinds })
        : calibratePooled(pooled, calibration),
    unlike: unlike !== undefined && features !== undefined && isUnlike(features, unlike),
  };
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
