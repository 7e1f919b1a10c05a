/** Hyperparameters in both formats: `config.json` of Hugging Face and the metadata of a GGUF file. */
import { CheckpointError, type Family } from "../../lib/checkpoints/families.ts";
import { ropeOf, scalingOf } from "./rope.ts";
import { type Config, type Facts, round } from "./values.ts";

export type { Config, Facts } from "./values.ts";

type Key = { hf: string; gguf: readonly string[]; type: "uint32" | "float32"; required?: true };

const u32 = (hf: string, ...gguf: string[]): Key => ({ hf, gguf, type: "uint32" });
const f32 = (hf: string, ...gguf: string[]): Key => ({ hf, gguf, type: "float32" });
const required = (key: Key): Key => ({ ...key, required: true });

const COMMON: readonly Key[] = [
  required(u32("num_hidden_layers", "block_count")),
  required(u32("max_position_embeddings", "context_length")),
  required(u32("hidden_size", "embedding_length")),
  required(u32("intermediate_size", "feed_forward_length")),
  required(u32("num_attention_heads", "attention.head_count")),
  u32("num_key_value_heads", "attention.head_count_kv"),
  u32("head_dim", "attention.key_length", "attention.value_length"),
  u32("vocab_size", "vocab_size"),
  required(f32("rms_norm_eps", "attention.layer_norm_rms_epsilon")),
];

const OWN: Readonly<Record<string, readonly Key[]>> = {
  granite: [
    f32("attention_multiplier", "attention.scale"),
    f32("embedding_multiplier", "embedding_scale"),
    f32("residual_multiplier", "residual_scale"),
    required(f32("logits_scaling", "logit_scale")),
  ],
  gemma2: [
    f32("attn_logit_softcapping", "attn_logit_softcapping"),
    f32("final_logit_softcapping", "final_logit_softcapping"),
    u32("sliding_window", "attention.sliding_window"),
  ],
  gemma3: [
    f32("final_logit_softcapping", "final_logit_softcapping"),
    u32("sliding_window", "attention.sliding_window"),
  ],
  phi3: [u32("sliding_window", "attention.sliding_window")],
  qwen3moe: [
    required(u32("num_experts", "expert_count")),
    required(u32("num_experts_per_tok", "expert_used_count")),
    required(u32("moe_intermediate_size", "expert_feed_forward_length")),
  ],
  "gpt-oss": [
    required(u32("num_local_experts", "expert_count")),
    required(u32("num_experts_per_tok", "expert_used_count")),
    required(u32("sliding_window", "attention.sliding_window")),
    required(u32("intermediate_size", "expert_feed_forward_length")),
  ],
};

/** Defaults of the Hugging Face classes for keys that a config may omit. */
const DEFAULTS: Readonly<Record<string, Config>> = {
  gemma3: {
    num_attention_heads: 8,
    num_key_value_heads: 4,
    head_dim: 256,
    rms_norm_eps: 1e-6,
    max_position_embeddings: 131_072,
    sliding_window: 4096,
  },
};

/** Models with images keep the language model's values in `text_config`. */
export function textConfig(config: Config, family: Family): Config {
  const { text_config: text } = config;
  const inner = typeof text === "object" && text !== null ? (text as Config) : {};
  const entries = Object.entries({ ...config, ...inner }).filter(([, value]) => value !== null);
  const values: Config = { ...DEFAULTS[family.architecture], ...Object.fromEntries(entries) };
  const { num_experts: experts = values.num_local_experts } = values; // transformers 5 writes the second for every family
  return experts === undefined ? values : { ...values, num_experts: experts };
}

const keysOf = ({ architecture }: Family): readonly Key[] => [...COMMON, ...(OWN[architecture] ?? [])];

const SCALING_FLOATS = [
  ...["rope_theta", "rope_local_base_freq", "factor", "attention_factor", "beta_fast", "beta_slow", "mscale"],
  ...["mscale_all_dim", "llama_4_scaling_beta", "low_freq_factor", "high_freq_factor"],
];
const FLOATS: ReadonlySet<string> = new Set([
  ...SCALING_FLOATS,
  ...[...COMMON, ...Object.values(OWN).flat()].flatMap(({ hf, type }) => (type === "float32" ? [hf] : [])),
]);

/** The text of config.json. Transformers refuses 30 where it expects 30.0, which JSON.stringify never writes. */
export const configText = (config: Config): string =>
  JSON.stringify(config, null, 2).replace(/"(\w+)": (-?\d+)(?=,?\n)/g, (whole, key: string) =>
    FLOATS.has(key) ? `${whole}.0` : whole,
  );

/** Metadata of GGUF from a text config. The tokenizer has its own metadata. */
export function metadataOf(config: Config, family: Family): Facts {
  const facts: Facts = new Map();
  for (const { hf, gguf, type, required: must } of keysOf(family)) {
    const value = config[hf] ?? undefined;
    if (value === undefined && !must) continue;
    for (const key of gguf) facts.set(key, { type, value: numberIn(hf, value, type) });
  }
  const head = headLength(config);
  if (!facts.has("attention.head_count_kv"))
    facts.set("attention.head_count_kv", { type: "uint32", value: count(config, "num_attention_heads") });
  for (const [key, value] of ropeOf(config, family, head)) facts.set(key, value);
  if (family.architecture === "phi3" && !facts.has("attention.sliding_window"))
    facts.set("attention.sliding_window", { type: "uint32", value: 0 }); // its absence means another model
  return facts;
}

/** The config.json of a model, from its metadata without the prefix. `tied`: it has no output matrix of its own. */
export function configOf(metadata: ReadonlyMap<string, unknown>, family: Family, tied: boolean): Config {
  const config: Record<string, unknown> = {
    architectures: [family.classes[0]],
    model_type: family.modelType,
    tie_word_embeddings: tied,
    hidden_act: family.sandwich ? "gelu_pytorch_tanh" : "silu",
  };
  if (family.sandwich) config.hidden_activation = config.hidden_act;
  for (const { hf, gguf } of keysOf(family)) {
    const value = metadata.get(gguf[0] ?? "");
    if (typeof value === "number") config[hf] = round(value);
  }
  config.head_dim ??= Number(config.hidden_size) / Number(config.num_attention_heads);
  if (family.normsFromZero) config.query_pre_attn_scalar = attentionScalar(config);
  if (family.architecture === "phi3" && config.sliding_window === 0) config.sliding_window = null;
  if (family.architecture === "qwen3moe") config.norm_topk_prob = true; // llama.cpp always normalizes
  return { ...config, ...scalingOf(metadata, family, Number(config.head_dim)) };
}

export function headLength(config: Config): number {
  const { head_dim: length } = config;
  if (length !== undefined && length !== null) return count(config, "head_dim");
  const [hidden, heads] = [count(config, "hidden_size"), count(config, "num_attention_heads")];
  if (hidden % heads !== 0)
    throw new CheckpointError(`config.json: hidden_size ${hidden} is not a multiple of num_attention_heads ${heads}`);
  return hidden / heads;
}

/** llama.cpp derives the scale of Gemma's attention from the head length, except in the models with 27B parameters. */
export const attentionScalar = (config: Config): number =>
  config.num_hidden_layers === 46 || config.num_hidden_layers === 62
    ? Number(config.hidden_size) / Number(config.num_attention_heads)
    : headLength(config);

export const count = (config: Config, key: string): number => numberIn(key, config[key], "uint32");
export const floatIn = (config: Config, key: string): number => numberIn(key, config[key], "float32");

function numberIn(key: string, value: unknown, type: "uint32" | "float32"): number {
  if (value === undefined || value === null) throw new CheckpointError(`config.json has no ${key}`);
  const good =
    typeof value === "number" &&
    (type === "float32" ? Number.isFinite(value) : Number.isInteger(value) && value >= 0 && value < 2 ** 31);
  if (!good)
    throw new CheckpointError(`config.json: ${key} is ${JSON.stringify(value)?.slice(0, 60)}, not a valid number`);
  return value as number;
}
