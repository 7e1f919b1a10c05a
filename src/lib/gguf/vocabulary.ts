import { array, count, has, missing, string } from "./facts.ts";
import { GgufError, type Header } from "./parse.ts";

const VOCAB = { min: 1, max: 1 << 24 };

/** How many tokens there are. Every table that native code indexes by token must be as long. */
export function vocabularyOf(header: Header, architecture: string): number {
  const model = string(header, "tokenizer.ggml.model") ?? missing("tokenizer.ggml.model");
  const sizeKey = `${architecture}.vocab_size`;
  if (model === "none" || model === "no_vocab") return count(header, sizeKey, VOCAB);
  const tokens = array(header, "tokenizer.ggml.tokens", ["string"]) ?? missing("tokenizer.ggml.tokens");
  if (tokens.length < VOCAB.min || tokens.length > VOCAB.max)
    throw new GgufError(`tokenizer.ggml.tokens has ${tokens.length} entries: expected ${VOCAB.min} to ${VOCAB.max}`);
  for (const [key, types] of Object.entries(PER_TOKEN)) {
    const table = array(header, key, types);
    if (table && table.length < tokens.length)
      throw new GgufError(`${key} has ${table.length} entries for ${tokens.length} tokens`);
  }
  array(header, "tokenizer.ggml.merges", ["string"]);
  if (has(header, sizeKey)) count(header, sizeKey, VOCAB);
  return tokens.length;
}

const PER_TOKEN: Record<string, readonly string[]> = {
  "tokenizer.ggml.scores": ["float32", "int32"],
  "tokenizer.ggml.token_type": ["int32"],
};
