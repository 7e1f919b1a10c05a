/**
 * Recognises the pre-tokenizer of a tokenizer.json by its rules and returns the name that llama.cpp has for it. The
 * rules of an unknown name cannot be carried over: GGUF stores only the name.
 */
import { CheckpointError } from "../../../lib/checkpoints/families.ts";

const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const REST = String.raw` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const UPPER = String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`;
const LOWER = String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`;
const MAYBE_OTHER = String.raw`[^\r\n\p{L}\p{N}]?`;
const SLASHES = String.raw` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const cased = (end: string) => `${MAYBE_OTHER}${UPPER}*${LOWER}+${end}|${MAYBE_OTHER}${UPPER}+${LOWER}*${end}`;

const LLAMA3 = String.raw`${CONTRACTIONS}|${MAYBE_OTHER}\p{L}+|\p{N}{1,3}|${REST}`;
const QWEN2 = String.raw`${CONTRACTIONS}|${MAYBE_OTHER}\p{L}+|\p{N}|${REST}`;
const QWEN35 = String.raw`${CONTRACTIONS}|${MAYBE_OTHER}[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const GPT4O = String.raw`${cased(`${CONTRACTIONS}?`)}|\p{N}{1,3}|${SLASHES}`;
const TEKKEN = String.raw`${cased("")}|\p{N}|${SLASHES}`;
const GPT2 = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;

/** llama.cpp's name → the pattern that splits text before its bytes are merged. GPT-2's is part of its byte level. */
export const PATTERNS: Readonly<Record<string, string>> = {
  "llama-bpe": LLAMA3,
  llama3: LLAMA3,
  dbrx: LLAMA3,
  "smaug-bpe": LLAMA3,
  qwen2: QWEN2,
  qwen35: QWEN35,
  tekken: TEKKEN,
  "gpt-4o": GPT4O,
};

/** Steps of the pre-tokenizer → name. */
const NAMES: ReadonlyMap<string, string> = new Map([
  [steps(`split ${QWEN2}`, "bytes"), "qwen2"],
  [steps(`split ${QWEN35}`, "bytes"), "qwen35"],
  [steps(`split ${GPT4O}`, "bytes"), "gpt-4o"],
  [steps(`split ${TEKKEN}`, "bytes"), "tekken"],
  [steps("digits", `split ${GPT2}`, "bytes"), "smollm"],
  [steps(`split ${GPT2}`, "bytes"), "gpt-2"],
]);

type Json = Readonly<Record<string, unknown>>;

export function preTokenizerName(preTokenizer: unknown, ignoreMerges: boolean): string {
  const joined = steps(...stepsOf(preTokenizer));
  if (joined === steps(`split ${LLAMA3}`, "bytes")) return ignoreMerges ? "llama-bpe" : "dbrx";
  const name = NAMES.get(joined);
  if (name !== undefined) return name;
  const rules = joined.replace(/\s+/g, " ").slice(0, 160);
  throw new CheckpointError(
    `tokenizer.json splits text by rules that are not supported (${rules || "none"}). Supported: the rules of Llama 3, Qwen, GPT-2, GPT-4o, SmolLM and Mistral`,
  );
}

function steps(...list: string[]): string {
  return list.join("\n");
}

function stepsOf(preTokenizer: unknown): string[] {
  const { type, ...rest } = (preTokenizer ?? {}) as Json;
  if (type === "Sequence" && Array.isArray(rest.pretokenizers)) return rest.pretokenizers.slice(0, 8).flatMap(stepsOf);
  if (type === "Digits") return rest.individual_digits === true ? ["digits"] : ["groups of digits"];
  if (type === "ByteLevel") {
    if (rest.add_prefix_space === true) return ["a space at the beginning"];
    return rest.use_regex === false ? ["bytes"] : [`split ${GPT2}`, "bytes"];
  }
  if (type === "Split") return [splitStep(rest)];
  return type === undefined ? [] : [String(type)];
}

/** Removing what does not match is the same as isolating what matches, because the patterns match every character. */
function splitStep({ pattern, behavior, invert }: Json): string {
  const regex = (pattern as Json | undefined)?.Regex;
  if (typeof regex !== "string") return "a split at a text";
  const isSupported = (behavior === "Isolated" && invert !== true) || (behavior === "Removed" && invert === true);
  return isSupported ? `split ${regex}` : `split (${String(behavior)}) ${regex}`;
}
