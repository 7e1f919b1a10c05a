/** Saves an unfinished generation as text: a resumed run learns from exactly the same numbers. */
import { z } from "zod";
import type { Generation } from "./generation.ts";
import type { Drawn } from "./rollout.ts";

const floats = z.string().nullable();
const Stored = z.strictObject({
  index: z.int(),
  metrics: z.record(z.string(), z.number()),
  samples: z.array(
    z.strictObject({
      prompt: z.int(),
      tokens: z.string(),
      from: z.int(),
      written: floats.default(null), // files of older versions lack it
      text: z.string(),
      truncated: z.boolean(),
      reward: z.number().nullable(),
      subRewards: z.record(z.string(), z.number().nullable()),
      weights: z.record(z.string(), z.number()).default({}), // files of older versions lack it
      error: z.string().nullable(),
      advantage: z.number(),
      sampler: floats,
      old: floats,
      reference: floats,
      teacher: floats.default(null), // files of older versions lack it
    }),
  ),
});

export function encodeGeneration({ index, metrics, samples }: Generation): string {
  return JSON.stringify({
    index,
    metrics,
    samples: samples.map((sample) => ({
      ...sample,
      tokens: encode(sample.tokens),
      written: sample.written && encode(sample.written),
      sampler: sample.sampler && encode(sample.sampler),
      old: sample.old && encode(sample.old),
      reference: sample.reference && encode(sample.reference),
      teacher: sample.teacher && encode(sample.teacher),
    })),
  });
}

export function decodeGeneration(text: string): Generation {
  const { index, metrics, samples } = Stored.parse(JSON.parse(text));
  const numbers = (encoded: string | null) => (encoded === null ? null : new Float32Array(decode(encoded)));
  return {
    index,
    metrics,
    samples: samples.map(
      (sample): Drawn => ({
        ...sample,
        tokens: new Int32Array(decode(sample.tokens)),
        written: sample.written === null ? null : new Uint8Array(decode(sample.written)),
        sampler: numbers(sample.sampler),
        old: numbers(sample.old),
        reference: numbers(sample.reference),
        teacher: numbers(sample.teacher),
      }),
    ),
  };
}

/** Encodes the bytes, so that every bit is preserved. */
const encode = (values: Int32Array | Float32Array | Uint8Array) =>
  Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("base64");
const decode = (text: string): ArrayBuffer => Uint8Array.from(Buffer.from(text, "base64")).buffer;
