/**
 * Turns the logits of crops into one calibrated score: pooled, mixed with the logit of the whole image if the model has
 * one, divided by a temperature, then mapped by a monotonic table. The JSON file beside a model's weights holds the parameters; training computes the same
 * (`models/detector/protocol/calibrate.py`).
 */
import { z } from "zod";
import { Curve, calibratePooled } from "../../lib/detection/curve.ts";

/**
 * Recognises images that are unlike everything in training. Their score says nothing: the model answers, but it has never seen
 * such an image.
 */
const Unlike = z
  .object({
    /** Means of the features over the training images. */
    mean: z.array(z.number()).min(1),
    deviation: z.array(z.number().positive()),
    /** The distance that 995 of 1,000 images of unseen sources stay below. */
    limit: z.number().positive(),
  })
  .refine(({ mean, deviation }) => mean.length === deviation.length, "expected as many deviations as means");
type Unlike = z.infer<typeof Unlike>;

/** The root mean square of the deviations from training, each in units of its spread. */
function distanceOf(features: ArrayLike<number>, { mean, deviation }: Unlike): number {
  const squares = mean.reduce((sum, value, i) => sum + (((features[i] ?? 0) - value) / deviation[i]!) ** 2, 0);
  return Math.sqrt(squares / mean.length);
}

const isUnlike = (features: ArrayLike<number>, unlike: Unlike): boolean => distanceOf(features, unlike) > unlike.limit;

/**
 * Calibration by kind of content. A model that is right about drawings and wrong about faces needs two curves. A linear map
 * tells the kinds from the features. The score is the mean over the kinds, each by its probability, so that no image
 * falls from one curve onto another.
 */
const Kinds = z
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
type Kinds = z.infer<typeof Kinds>;

/** Pools the logits of one image, highest first. `top_k` and `top_fraction` take the mean of the highest. */
export const Pooling = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("mean") }),
  z.object({ kind: z.literal("top_k"), k: z.int().positive() }),
  z.object({ kind: z.literal("top_fraction"), fraction: z.number().gt(0).max(1) }),
  /** Weights are proportional to exp(beta · logit): 0 gives the mean, a large beta the maximum. */
  z.object({ kind: z.literal("softmax"), beta: z.number().min(0) }),
]);
export type Pooling = z.infer<typeof Pooling>;

/** The image's logit is crops · pooled logit of the crops + whole · logit of the whole image + bias. */
export const Mix = z.object({ crops: z.number(), whole: z.number(), bias: z.number() });
export type Mix = z.infer<typeof Mix>;

export const Calibration = Curve.extend({
  version: z.string().min(1),
  pooling: Pooling,
  /** Without it only crops count. */
  whole: Mix.optional(),
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

/** The answers of the networks about one image. `whole` is the logit of the whole image, if its network was asked. */
export type Answers = { logits: ArrayLike<number>; features: Features; whole: number | undefined };

/** The logit of an image before temperature and curves. */
export function imageLogit({ logits, whole }: Omit<Answers, "features">, calibration: Calibration): number {
  const pooled = pool(logits, calibration.pooling);
  const mix = calibration.whole;
  if (!mix) return pooled;
  if (whole === undefined) throw new Error("The network for whole images gave no answer");
  return mix.crops * pooled + mix.whole * whole + mix.bias;
}

/** Judges one image. Throws if a network returned NaN. */
export function judgeImage({ logits, features, whole }: Answers, calibration: Calibration): Judgement {
  const { kinds, unlike } = calibration;
  const logit = imageLogit({ logits, whole }, calibration);
  return {
    score:
      kinds && features ? scoreByKind(logit, features, { ...calibration, kinds }) : calibratePooled(logit, calibration),
    unlike: unlike !== undefined && features !== undefined && isUnlike(features, unlike),
  };
}

/** The probability of each kind, in the order of the names. */
function kindShares(features: ArrayLike<number>, { weight, bias }: Kinds): number[] {
  const logits = weight.map((row, k) => row.reduce((sum, factor, i) => sum + factor * (features[i] ?? 0), bias[k]!));
  const highest = Math.max(...logits);
  const powers = logits.map((logit) => Math.exp(logit - highest));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

function scoreByKind(pooled: number, features: ArrayLike<number>, all: Curve & { kinds: Kinds }): number {
  const { names, curves } = all.kinds;
  const shares = kindShares(features, all.kinds);
  return names.reduce((sum, name, k) => sum + shares[k]! * calibratePooled(pooled, curves[name] ?? all), 0);
}

/**
 * Scores one crop alone. The whole image must not raise or lower it, so the network for whole images counts as undecided:
 * its logit is 0.
 */
export const judgeCrop = (logit: number, features: Features, calibration: Calibration): number =>
  judgeImage({ logits: [logit], features, whole: 0 }, calibration).score;

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
