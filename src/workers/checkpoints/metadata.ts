/** The metadata of a GGUF file, from the small files of a Hugging Face folder. */

import type { Family } from "../../lib/checkpoints/families.ts";
import { float32Value, type Metadata, type NewValue, textValue, uint32Value } from "../../lib/gguf/write.ts";
import { type Config, metadataOf } from "./config.ts";
import { type SmallFiles, specialsOf } from "./tokenizer/special.ts";
import type { Vocabulary } from "./tokenizer/vocabulary.ts";

/** Numbers of `general.file_type`. */
const FILE_TYPE: Readonly<Record<string, number>> = {
  F32: 0,
  F16: 1,
  Q8_0: 7,
  Q4_K_M: 15,
  Q5_K_M: 17,
  Q6_K: 18,
  BF16: 32,
  MXFP4: 38,
};

type Parts = { name: string; family: Family; config: Config; vocabulary: Vocabulary; files: SmallFiles; type: string };

/** The keys that every file begins with. */
export const generalMetadata = (name: string, architecture: string, type: string): [string, NewValue][] => [
  ["general.architecture", textValue(architecture)],
  ["general.type", textValue("model")],
  ["general.name", textValue(name)],
  ["general.file_type", uint32Value(FILE_TYPE[type] ?? 0)],
  ["general.quantization_version", uint32Value(2)],
];

export function ggufMetadata({ name, family, config, vocabulary, files, type }: Parts): Metadata {
  const all = new Map(generalMetadata(name, family.architecture, type));
  for (const [key, value] of metadataOf(config, family)) all.set(`${family.architecture}.${key}`, value);
  all.set(`${family.architecture}.vocab_size`, uint32Value(vocabulary.tokens.length));
  for (const [key, value] of tokenizerMetadata(vocabulary, files)) all.set(key, value);
  for (const [key, value] of samplingMetadata(files.generationConfig)) all.set(key, value);
  return all;
}

function tokenizerMetadata(vocabulary: Vocabulary, files: SmallFiles): Map<string, NewValue> {
  const { model, pre, tokens, types, scores, merges, addSpacePrefix } = vocabulary;
  const all = new Map<string, NewValue>([
    ["tokenizer.ggml.model", textValue(model)],
    ["tokenizer.ggml.pre", textValue(pre)],
    ["tokenizer.ggml.tokens", { type: "array", of: "string", values: tokens }],
    ["tokenizer.ggml.token_type", { type: "array", of: "int32", values: types }],
  ]);
  if (scores) all.set("tokenizer.ggml.scores", { type: "array", of: "float32", values: scores });
  if (merges) all.set("tokenizer.ggml.merges", { type: "array", of: "string", values: merges });
  if (addSpacePrefix !== undefined) all.set("tokenizer.ggml.add_space_prefix", { type: "bool", value: addSpacePrefix });
  const { ids, addBos, addEos, template } = specialsOf(files, tokens);
  for (const [kind, id] of ids) all.set(`tokenizer.ggml.${kind}_token_id`, uint32Value(id));
  if (addBos !== undefined) all.set("tokenizer.ggml.add_bos_token", { type: "bool", value: addBos && ids.has("bos") });
  if (addEos !== undefined) all.set("tokenizer.ggml.add_eos_token", { type: "bool", value: addEos && ids.has("eos") });
  if (template !== undefined) all.set("tokenizer.chat_template", textValue(template));
  return all;
}

function samplingMetadata(generation: unknown): Map<string, NewValue> {
  const all = new Map<string, NewValue>();
  const { temperature, top_p: topP, top_k: topK } = (generation ?? {}) as Record<string, unknown>;
  if (typeof temperature === "number") all.set("general.sampling.temp", float32Value(temperature));
  if (typeof topP === "number") all.set("general.sampling.top_p", float32Value(topP));
  if (Number.isInteger(topK)) all.set("general.sampling.top_k", { type: "int32", value: topK as number });
  return all;
}
