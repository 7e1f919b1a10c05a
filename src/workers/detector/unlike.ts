/**
 * Recognises images that are unlike everything in training. Their score says nothing: the model answers, but it has never seen
 * such an image.
 */
import { z } from "zod";

export const Unlike = z
  .object({
    /** Means of the features over the training images. */
    mean: z.array(z.number()).min(1),
    deviation: z.array(z.number().positive()),
    /** The distance that 995 of 1,000 images of unseen sources stay below. */
    limit: z.number().positive(),
  })
  .refine(({ mean, deviation }) => mean.length === deviation.length, "expected as many deviations as means");
export type Unlike = z.infer<typeof Unlike>;

/** The root mean square of the deviations from training, each in units of its spread. */
export function distanceOf(features: ArrayLike<number>, { mean, deviation }: Unlike): number {
  const squares = mean.reduce((sum, value, i) => sum + (((features[i] ?? 0) - value) / deviation[i]!) ** 2, 0);
  return Math.sqrt(squares / mean.length);
}

export const isUnlike = (features: ArrayLike<number>, unlike: Unlike): boolean =>
  distanceOf(features, unlike) > unlike.limit;
