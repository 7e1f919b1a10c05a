/**
 * Model families that exist both as a Hugging Face folder and as a GGUF file. `src/lib/checkpoints` is pure and holds
 * the facts that both directions need:
 *
 * - `families.ts`: the families, found by `config.json` or by the architecture of a GGUF file
 * - `tensors.ts`: `tensorNames(family, size)`, the name of every tensor in both formats and how its values differ
 * - `config.ts`: `metadataOf(config)` and `configOf(metadata)`, the hyperparameters in both formats
 * - `safetensors.ts`: the header of a safetensors file, read and written
 */

/** The folder is not what it claims to be. The message is safe to show to users. */
export class CheckpointError extends Error {
  override name = "CheckpointError";
}

export type Family = {
  /** `general.architecture` of the GGUF file. */
  architecture: string;
  /** `architectures[0]` of config.json. */
  classes: readonly string[];
  /** `model_type` of config.json. */
  modelType: string;
  /** llama.cpp rotates neighbouring pairs in these families: rows of q and k are reordered. */
  rotated?: true;
  /** Norm weights are stored as a difference from 1 in Hugging Face. */
  normsFromZero?: true;
  /** Norms before and after each block: Gemma. */
  sandwich?: true;
  /** Norms of q and k for each head. */
  qkNorms?: true;
  /** One matrix for q, k and v, and one for gate and up; the same in both formats. */
  fused?: true;
  /** One tensor for each expert in Hugging Face, one for all in GGUF; or `packed` tensors for all in both. */
  experts?: "separate" | "packed";
};

// biome-ignore format: a table should look like one
export const FAMILIES: readonly Family[] = [
  { architecture: "llama", classes: ["LlamaForCausalLM", "MistralForCausalLM"], modelType: "llama", rotated: true },
  { architecture: "mistral3", classes: ["Ministral3ForCausalLM", "Mistral3ForConditionalGeneration"], modelType: "ministral3", rotated: true },
  { architecture: "smollm3", classes: ["SmolLM3ForCausalLM"], modelType: "smollm3", rotated: true },
  { architecture: "granite", classes: ["GraniteForCausalLM"], modelType: "granite", rotated: true },
  { architecture: "qwen2", classes: ["Qwen2ForCausalLM"], modelType: "qwen2" },
  { architecture: "qwen3", classes: ["Qwen3ForCausalLM"], modelType: "qwen3", qkNorms: true },
  { architecture: "qwen3moe", classes: ["Qwen3MoeForCausalLM"], modelType: "qwen3_moe", qkNorms: true, experts: "separate" },
  { architecture: "phi3", classes: ["Phi3ForCausalLM"], modelType: "phi3", fused: true },
  { architecture: "gemma2", classes: ["Gemma2ForCausalLM"], modelType: "gemma2", normsFromZero: true, sandwich: true },
  { architecture: "gemma3", classes: ["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"], modelType: "gemma3_text", normsFromZero: true, sandwich: true, qkNorms: true },
  { architecture: "gpt-oss", classes: ["GptOssForCausalLM"], modelType: "gpt_oss", experts: "packed" },
];

export const familyOf = (architecture: string): Family | undefined =>
  FAMILIES.find((family) => family.architecture === architecture);

/** The family of a Hugging Face folder. Throws a sentence that names the known families. */
export function familyOfConfig(config: Readonly<Record<string, unknown>>): Family {
  const { architectures } = config;
  const name = Array.isArray(architectures) ? architectures[0] : undefined;
  const family = FAMILIES.find(({ classes }) => classes.includes(name));
  if (family) return family;
  const supported = [...FAMILIES.map(({ classes }) => classes[0]), "BertModel", "BertForSequenceClassification"].join(
    ", ",
  );
  const named = typeof name === "string" ? JSON.stringify(name.slice(0, 80)) : "nothing";
  throw new CheckpointError(
    `config.json names ${named} in "architectures", which is not supported. Supported: ${supported}`,
  );
}
