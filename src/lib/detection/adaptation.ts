/**
 * An adaptation changes the last layer and the calibration of detectors for the files of one lab. It belongs to exact
 * weights: with others it is not used.
 */
import { z } from "zod";
import { calibratePooled, Isotonic } from "./curve.ts";

/** Float32 numbers in base64, little endian. */
export const packFloats = (values: Float32Array): string =>
  Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("base64");
export const unpackFloats = (text: string): Float32Array =>
  new Float32Array(Uint8Array.from(Buffer.from(text, "base64")).buffer);

export const AdaptedModel = z.strictObject({
  /** SHA-256 of the weights that it belongs to, together with the network for whole images where the model uses it. */
  base: z.string().regex(/^[0-9a-f]{64}$/),
  /** Amounts that the last layer adds to the logit of the image. Null: only the calibration changes. */
  head: z
    .strictObject({
      weight: z.base64().refine((text) => Buffer.from(text, "base64").length % 4 === 0, "expected float32 numbers"),
      bias: z.number(),
    })
    .nullable(),
  temperature: z.number().positive(),
  isotonic: Isotonic,
});
export type AdaptedModel = z.infer<typeof AdaptedModel>;

export const Adaptation = z.strictObject({
  format: z.literal(1),
  /** 1, 2, 3 … in a data directory. */
  number: z.int().positive(),
  made_at: z.string(),
  models: z.record(z.string(), AdaptedModel),
});
export type Adaptation = z.infer<typeof Adaptation>;

/** The version that answers name, so that results of different adaptations are never mixed up. */
export const adaptedVersion = (version: string, number: number) => `${version}+adapted.${number}`;

/** The unadapted model's view of a file: its logit, and the features that the last layer reads (maybe none). */
export type Evidence = { logit: number; features: ArrayLike<number> };

export function adaptedScore({ logit, features }: Evidence, { head, ...curve }: AdaptedModel): number {
  if (head === null) return calibratePooled(logit, curve);
  const weight = unpackFloats(head.weight);
  let sum = logit + head.bias;
  for (const [i, amount] of weight.entries()) sum += amount * (features[i] ?? 0);
  return calibratePooled(sum, curve);
}
