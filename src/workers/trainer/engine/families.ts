/** Differences between the families of trainable models, read from a GGUF file as llama.cpp reads them. */
import { type Family, HAS_EXPERTS, NORMS_HEADS, NORMS_RESULTS } from "../../../lib/gguf/architecture.ts";
import { array, count, float } from "../../../lib/gguf/facts.ts";
import { GgufError, type Header } from "../../../lib/gguf/parse.ts";

/** Layers whose tokens attend only to the last `size` positions, with a rotation of their own. */
export type Window = { size: number; layers: readonly boolean[]; ropeBase: number; ropeScale: number };

export type Experts = {
  count: number;
  /** Experts that compute each token. */
  used: number;
  activation: "silu" | "oai";
};

export type Features = {
  /** False for layers whose queries and keys are not rotated. */
  rotates: readonly boolean[];
  window: Window | null;
  /** True if queries and keys are normalised per head. */
  headNorms: boolean;
  /** True if the results of attention and of the feed-forward part are normalised before they are added. */
  postNorms: boolean;
  /** Queries, keys and values are one matrix; gate and up are one matrix. */
  joins: { attention: boolean; forward: boolean };
  activation: "silu" | "gelu";
  /** The norm before the feed-forward part. */
  forwardNorm: "ffn_norm" | "post_attention_norm";
  /** Null: the feed-forward part is one network. */
  experts: Experts | null;
  scales: {
    /** Multiplies embeddings. */
    embedding: number;
    /** Multiplies what a layer adds to the residual stream. */
    residual: number;
    /** Multiplies attention scores. */
    scores: number;
    /** Multiplies logits. */
    logits: number;
  };
  /** Values are limited to ±cap by cap · tanh(x / cap). 0: not limited. */
  caps: { scores: number; logits: number };
  /** Queries are multiplied by 1 + scale · log(1 + ⌊position / length⌋). Null: they are not. */
  temperature: { scale: number; length: number } | null;
};

type Size = { layers: number; width: number; heads: number; headLength: number; ropeBase: number; ropeScale: number };
type Facts = { header: Header; name: Family; size: Size };

const SCALE = { min: 0, max: 1e6 };
const UNROTATED_STEP = 4; // of smollm3

export function featuresOf(header: Header, name: Family, size: Size): Features {
  const facts = { header, name, size };
  const isGemma = name === "gemma2" || name === "gemma3";
  return {
    rotates: Array.from({ length: size.layers }, (_, layer) => rotates(facts, layer)),
    window: windowOf(facts),
    headNorms: NORMS_HEADS.includes(name),
    postNorms: NORMS_RESULTS.includes(name),
    joins: { attention: header.tensors.has("blk.0.attn_qkv.weight"), forward: name === "phi3" },
    activation: isGemma ? "gelu" : "silu",
    forwardNorm: name === "gpt-oss" ? "post_attention_norm" : "ffn_norm",
    experts: expertsOf(facts),
    scales: scalesOf(facts),
    caps: {
      scores: name === "gemma2" ? required(facts, "attn_logit_softcapping") : 0,
      logits: isGemma ? (value(facts, "final_logit_softcapping") ?? 0) : 0,
    },
    temperature: name === "mistral3" ? temperatureOf(facts) : null,
  };
}

/** llama.cpp treats 0 as absent. */
const value = ({ header, name }: Facts, key: string) => float(header, `${name}.${key}`, SCALE) || undefined;

function required(facts: Facts, key: string): number {
  return value(facts, key) ?? fail(`${facts.name}.${key} is missing`);
}

function rotates({ header, name }: Facts, layer: number): boolean {
  if (name === "smollm3") return (layer + 1) % UNROTATED_STEP !== 0;
  return name !== "granite" || header.metadata.get("granite.rope.scaling.finetuned")?.value !== false;
}

function scalesOf(facts: Facts): Features["scales"] {
  const { name, size } = facts;
  const plain = { embedding: 1, residual: 1, scores: 1 / Math.sqrt(size.headLength), logits: 1 };
  if (name === "granite")
    return {
      embedding: value(facts, "embedding_scale") ?? 1,
      residual: value(facts, "residual_scale") ?? 1,
      scores: value(facts, "attention.scale") ?? plain.scores,
      logits: 1 / required(facts, "logit_scale"),
    };
  if (name !== "gemma2" && name !== "gemma3") return plain;
  // The two models of 27B divide by another length. Only their number of layers tells them apart.
  const is27B = size.layers === (name === "gemma2" ? 46 : 62);
  const scores = is27B ? 1 / Math.sqrt(size.width / size.heads) : plain.scores;
  return { ...plain, embedding: Math.sqrt(size.width), scores };
}

function expertsOf({ header, name }: Facts): Experts | null {
  if (!HAS_EXPERTS.includes(name)) return null;
  const all = count(header, `${name}.expert_count`, { min: 1, max: 1024 });
  const used = count(header, `${name}.expert_used_count`, { min: 1, max: all });
  return { count: all, used, activation: name === "gpt-oss" ? "oai" : "silu" };
}

const WINDOWS: Partial<Record<Family, { size: number; step: number }>> = {
  gemma2: { size: 4096, step: 2 },
  gemma3: { size: 0, step: 6 },
  "gpt-oss": { size: 0, step: 2 },
};

function windowOf({ header, name, size: of }: Facts): Window | null {
  const usual = WINDOWS[name];
  if (!usual) return null;
  const size = count(header, `${name}.attention.sliding_window`, { min: 0, max: 2 ** 30 }, usual.size);
  if (size === 0) return null;
  const isGemma3 = name === "gemma3";
  return {
    size,
    layers: patternOf(header, name, { layers: of.layers, step: usual.step }),
    ropeBase: float(header, `${name}.rope.freq_base_swa`, { min: 1, max: 1e12 }) ?? (isGemma3 ? 10_000 : of.ropeBase),
    ropeScale: isGemma3 ? 1 : of.ropeScale,
  };
}

/** The last layer of each `step` layers sees everything; or the file names the layers. */
function patternOf(header: Header, name: Family, { layers, step }: { layers: number; step: number }): boolean[] {
  const key = `${name}.attention.sliding_window_pattern`;
  if (header.metadata.get(key)?.type === "array") {
    const { numbers = [], length } = array(header, key, ["bool", "uint32", "int32"]) ?? { length: 0 };
    if (length !== layers) fail(`${key} has ${length} values for ${layers} layers`);
    return numbers.map((each) => each !== 0);
  }
  const every = count(header, key, { min: 0, max: 1024 }, step);
  return Array.from({ length: layers }, (_, layer) => every === 0 || layer % every < every - 1);
}

function temperatureOf(facts: Facts): Features["temperature"] {
  const { header, name } = facts;
  const scale = value(facts, "attention.temperature_scale");
  const MANY = { min: 1, max: 2 ** 30 };
  const original = `${name}.rope.scaling.original_context_length`;
  if (!scale) return null;
  return { scale, length: count(header, original, MANY, count(header, `${name}.context_length`, MANY, 1)) };
}

function fail(message: string): never {
  throw new GgufError(message);
}

const QKV = ["attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_q.bias", "attn_k.bias", "attn_v.bias"];
const PLAIN = [...QKV, "attn_norm.weight", "attn_output.weight", "ffn_norm.weight"].concat(
  ["gate", "up", "down"].map((part) => `ffn_${part}.weight`),
);
const HEAD_NORMS = ["attn_q_norm.weight", "attn_k_norm.weight"];
const POST_NORMS = ["post_attention_norm.weight", "post_ffw_norm.weight"];
const EXPERT_PARTS = ["gate_inp", "gate_exps", "up_exps", "down_exps"];
const EXPERTS = EXPERT_PARTS.map((part) => `ffn_${part}.weight`);
const EXPERT_BIASES = EXPERT_PARTS.map((part) => `ffn_${part}.bias`);
const IN_LAYERS: Record<Family, readonly string[]> = {
  llama: PLAIN,
  qwen2: PLAIN,
  qwen3: [...PLAIN, ...HEAD_NORMS],
  mistral3: PLAIN,
  smollm3: PLAIN,
  granite: PLAIN,
  phi3: [...PLAIN.filter((part) => part !== "ffn_gate.weight"), "attn_qkv.weight", "attn_qkv.bias"],
  qwen3moe: [...QKV, ...HEAD_NORMS, ...EXPERTS, "attn_norm.weight", "attn_output.weight", "ffn_norm.weight"],
  "gpt-oss": [...QKV, ...EXPERTS, ...EXPERT_BIASES].concat(
    ["attn_norm", "attn_output", "attn_sinks", "post_attention_norm"].map((part) => `${part}.weight`),
    "attn_output.bias",
  ),
  gemma2: [...PLAIN, ...POST_NORMS],
  gemma3: [...PLAIN, ...POST_NORMS, ...HEAD_NORMS],
};
const ONCE = ["token_embd.weight", "output_norm.weight"];
const WITHOUT_FACTORS: readonly Family[] = ["smollm3", "gemma2", "gemma3", "phi3", "qwen3moe", "gpt-oss"];

/** True if the computation uses the weight. */
export function isUsed(weight: string, name: Family): boolean {
  if (ONCE.includes(weight)) return true;
  if (weight === "output.weight") return name !== "gemma2";
  if (weight === "rope_freqs.weight") return !WITHOUT_FACTORS.includes(name);
  if (LONG_FACTORS.includes(weight)) return name === "phi3";
  const [, part = ""] = /^blk\.\d+\.(.+)$/.exec(weight) ?? [];
  return IN_LAYERS[name].includes(part);
}

const LONG_FACTORS = ["rope_factors_long.weight", "rope_factors_short.weight"];
