/**
 * An adaptation changes the last layer and the calibration of detectors for the files of one lab. It belongs to exact
 * weights: with others it is not used. Its file may come from another lab, so sizes and numbers have limits.
 */
import { z } from "zod";
import { later } from "../schema.ts";
import { issueText } from "../text/issue.ts";
import { MIB } from "../units.ts";
import { calibratePooled, Isotonic } from "./curve.ts";

/** Float32 numbers in base64, little endian. */
export const packFloats = (values: Float32Array): string =>
  Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("base64");
export const unpackFloats = (text: string): Float32Array =>
  new Float32Array(Uint8Array.from(Buffer.from(text, "base64")).buffer);

const MOST_BYTES = 4 * MIB;
const MOST_WEIGHTS = 65_536;
const MOST_MODELS = 16;
/** The largest amount of a weight, a bias or a temperature. Larger ones make every score the same or NaN. */
const MOST_AMOUNT = 1e6;

const isAmount = (value: number) => Math.abs(value) <= MOST_AMOUNT; // false for NaN
const bytesIn = (text: string) => Math.floor((text.replace(/=+$/, "").length * 3) / 4);

const Weight = later(() =>
  z
    .base64()
    .max(Math.ceil((MOST_WEIGHTS * 4) / 3) * 4)
    .refine((text) => bytesIn(text) % 4 === 0, "expected float32 numbers")
    .refine((text) => bytesIn(text) % 4 !== 0 || unpackFloats(text).every(isAmount), "expected usable numbers"),
);

export const AdaptedModel = later(() =>
  z.strictObject({
    /** SHA-256 of the weights that it belongs to, together with the network for whole images where the model uses it. */
    base: z.string().regex(/^[0-9a-f]{64}$/),
    /** Amounts that the last layer adds to the logit of the image. Null: only the calibration changes. */
    head: z
      .strictObject({
        weight: Weight,
        bias: z.number().refine(isAmount, "expected a usable number"),
      })
      .nullable(),
    temperature: z
      .number()
      .min(1 / MOST_AMOUNT)
      .max(MOST_AMOUNT),
    isotonic: Isotonic,
  }),
);
export type AdaptedModel = z.infer<typeof AdaptedModel>;

export const Adaptation = later(() =>
  z.strictObject({
    format: z.literal(1),
    /** 1, 2, 3 … in a data directory. */
    number: z.int().positive(),
    made_at: z.string().max(40),
    models: z
      .record(z.string().max(100), AdaptedModel)
      .refine((models) => Object.keys(models).length <= MOST_MODELS, `expected at most ${MOST_MODELS} models`),
  }),
);
export type Adaptation = z.infer<typeof Adaptation>;

/** Reads the bytes of a file. Throws an Error with one line. */
export function readAdaptation(bytes: Uint8Array): Adaptation {
  if (bytes.length > MOST_BYTES) throw new Error(`it has more than ${MOST_BYTES / MIB} MiB`);
  const read = Adaptation.safeParse(JSON.parse(new TextDecoder().decode(bytes)));
  if (read.success) return read.data;
  const [first] = read.error.issues;
  throw new Error(`${first?.path.join(".") || "the file"}: ${issueText(first).slice(0, 200)}`);
}
/** One byte more than a file may have: enough to see that it is too large. */
export const READ_BYTES = MOST_BYTES + 1;

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
