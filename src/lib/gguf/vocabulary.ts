import { array, count, has, missing, string } from "./facts.ts";
import { GgufError, type Header, LIMITS } from "./parse.ts";

const VOCAB = { min: 4, max: LIMITS.tokens };
const ANY = { min: 0, max: 2 ** 32 - 1 };

/** Returns the number of tokens. Every table that native code indexes by token must have this length. */
export function vocabularyOf(header: Header, architecture: string): number {
  const model = string(header, "tokenizer.ggml.model") ?? missing("tokenizer.ggml.model");
  if (model === "none" || model === "no_vocab")
    throw new GgufError("The file has no tokenizer (tokenizer.ggml.model is none): it cannot read or write text");
  const tokens = array(header, "tokenizer.ggml.tokens", ["string"]) ?? missing("tokenizer.ggml.tokens");
  if (tokens.length < VOCAB.min || tokens.length > VOCAB.max)
    throw new GgufError(`tokenizer.ggml.tokens has ${tokens.length} entries. Expected ${VOCAB.min} to ${VOCAB.max}`);
  for (const [key, types] of Object.entries(PER_TOKEN)) {
    const table = array(header, key, types);
    if (table && table.length < tokens.length)
      throw new GgufError(`${key} has ${table.length} entries, but there are ${tokens.length} tokens`);
  }
  array(header, "tokenizer.ggml.merges", ["string"]);
  const sizeKey = `${architecture}.vocab_size`;
  if (has(header, sizeKey)) count(header, sizeKey, ANY);
  for (const which of ["bos", "eos", "sep"] as const)
    checkAdded(header, which, DEFAULTS[model]?.[which], tokens.length);
  return tokens.length;
}

const PER_TOKEN: Record<string, readonly string[]> = {
  "tokenizer.ggml.scores": ["float32", "int32"],
  "tokenizer.ggml.token_type": ["int32"],
};

/** Native code's defaults for files that name no tokens. */
const DEFAULTS: Record<string, { bos?: number; eos?: number; sep?: number }> = {
  llama: { bos: 1, eos: 2 },
  bert: { bos: 101, sep: 102 },
  gpt2: { bos: 11, eos: 11 },
  t5: { eos: 1 },
  plamo2: { bos: 1, eos: 2 },
};
const KEYS = { bos: "bos_token_id", eos: "eos_token_id", sep: "seperator_token_id" }; // the format's own spelling

/** A token that is added to every prompt must exist. */
function checkAdded(header: Header, which: keyof typeof KEYS, byDefault: number | undefined, tokens: number) {
  const added = header.metadata.get(`tokenizer.ggml.add_${which}_token`);
  if (added && added.type !== "bool")
    throw new GgufError(`tokenizer.ggml.add_${which}_token must be a bool, not ${added.type}`);
  const key = `tokenizer.ggml.${KEYS[which]}`;
  const named = has(header, key) ? count(header, key, ANY) : undefined;
  const exists = [named, byDefault].some((id) => id !== undefined && id < tokens);
  if (added?.value === true && !exists)
    throw new GgufError(
      `${key} is ${named ?? "absent"}, but it is added to every prompt, and there are ${tokens} tokens`,
    );
}
