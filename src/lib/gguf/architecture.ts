/**
 * Required content of the architectures that this program knows. Others get only the general checks; native code checks
 * the rest.
 */
import { count, countPerLayer, float, missing, optionalTensor, tensor } from "./facts.ts";
import { GgufError, type Header } from "./parse.ts";

export type Hyperparameters = {
  architecture: string;
  layers: number;
  embedding: number;
  heads: readonly number[];
  kvHeads: readonly number[];
  keyLength: number;
  valueLength: number;
  vocab: number;
};

/** Families that can be trained. Every other family that llama.cpp knows is only served. */
// biome-ignore format: a list should look like one
export const ARCHITECTURES = [
  "llama", "qwen2", "qwen3", "mistral3", "smollm3", "granite", "phi3", "gemma2", "gemma3", "qwen3moe", "gpt-oss",
] as const;
export type Family = (typeof ARCHITECTURES)[number];
const MAX_EXPERTS = 1024;

/** Native code asserts these relations. */
export type Experts = { count: number; used: number };

/** Experts of a layer, and those that compute a token; undefined for a model without experts. */
export function expertsOf(header: Header, { architecture, layers }: Hyperparameters): Experts | undefined {
  const key = (name: string) => `${architecture}.${name}`;
  const experts = count(header, key("expert_count"), { min: 0, max: MAX_EXPERTS }, 0);
  const used = countPerLayer(header, key("expert_used_count"), layers, { min: 0, max: MAX_EXPERTS }) ?? [0];
  const mostUsed = Math.max(...used);
  const groups = count(header, key("expert_group_count"), { min: 0, max: MAX_EXPERTS }, 0);
  const groupsUsed = count(header, key("expert_group_used_count"), { min: 0, max: MAX_EXPERTS }, 0);
  if (mostUsed > experts || (experts > 0 && mostUsed === 0))
    throw new GgufError(`${key("expert_used_count")} is ${mostUsed} of ${experts} experts`);
  const grouped = groups > 1 && (experts % groups !== 0 || groupsUsed < 1 || groupsUsed >= groups);
  if ((groups > 0 && groups >= experts) || grouped)
    throw new GgufError(`${key("expert_group_count")} is ${groups} (${groupsUsed} used) for ${experts} experts`);
  const extra = count(header, key("nextn_predict_layers"), { min: 0, max: layers }, 0);
  if (extra >= layers) throw new GgufError(`${key("nextn_predict_layers")} is ${extra} of ${layers} layers`);
  return experts > 0 ? { count: experts, used: mostUsed } : undefined;
}

export function checkArchitecture(header: Header, hyperparameters: Hyperparameters) {
  const { architecture, heads, kvHeads, keyLength, valueLength } = hyperparameters;
  const family = ARCHITECTURES.find((name) => name === architecture);
  if (!family) return;
  const key = (name: string) => `${architecture}.${name}`;
  for (let layer = 0; layer < hyperparameters.layers; layer++) {
    const [all = 0, kv = 0] = [heads[layer], kvHeads[layer]];
    if (all < 1 || kv < 1 || all % kv !== 0)
      throw new GgufError(`${key("attention.head_count")} is ${all} with ${kv} key heads in layer ${layer}`);
  }
  const rotated = count(header, key("rope.dimension_count"), { min: 1, max: 8192 }, keyLength);
  const mayBePart = family === "phi3" && rotated < keyLength; // the rest of a head is not rotated
  if (keyLength !== valueLength || (rotated !== keyLength && !mayBePart) || rotated % 2 !== 0)
    throw new GgufError(
      `${architecture} needs one even head length, but keys have ${keyLength}, values ${valueLength}, rotation ${rotated}`,
    );
  float(header, key("attention.layer_norm_rms_epsilon"), { min: 0, max: 1 }) ??
    missing(key("attention.layer_norm_rms_epsilon"));
  checkTensors(header, hyperparameters, { family, key });
}

type Of = { family: Family; key: (name: string) => string };

function checkTensors(header: Header, hyperparameters: Hyperparameters, { family, key }: Of) {
  const { layers, embedding, heads, kvHeads, keyLength, vocab } = hyperparameters;
  const forward = countPerLayer(header, key("feed_forward_length"), layers, { min: 1, max: 1 << 22 });
  if (!forward) missing(key("feed_forward_length"));
  const experts = count(header, key("expert_count"), { min: 0, max: MAX_EXPERTS }, 0);
  tensor(header, "token_embd.weight", [embedding, vocab]);
  tensor(header, "output_norm.weight", [embedding]);
  optionalTensor(header, "output.weight", [embedding, vocab]);
  for (let i = 0; i < layers; i++) {
    const q = keyLength * (heads[i] as number);
    const kv = keyLength * (kvHeads[i] as number);
    const vectors = (names: readonly string[], length: number) => {
      for (const name of names) tensor(header, `blk.${i}.${name}.weight`, [length]);
    };
    vectors(["attn_norm", family === "gpt-oss" ? "post_attention_norm" : "ffn_norm"], embedding);
    if (family === "gpt-oss") vectors(["attn_sinks"], heads[i] as number);
    tensor(header, `blk.${i}.attn_output.weight`, [q, embedding]);
    if (header.tensors.has(`blk.${i}.attn_qkv.weight`))
      tensor(header, `blk.${i}.attn_qkv.weight`, [embedding, q + 2 * kv]);
    else {
      tensor(header, `blk.${i}.attn_q.weight`, [embedding, q]);
      tensor(header, `blk.${i}.attn_k.weight`, [embedding, kv]);
      tensor(header, `blk.${i}.attn_v.weight`, [embedding, kv]);
    }
    optionalTensor(header, `blk.${i}.attn_q.bias`, [q]);
    optionalTensor(header, `blk.${i}.attn_k.bias`, [kv]);
    optionalTensor(header, `blk.${i}.attn_v.bias`, [kv]);
    if (NORMS_HEADS.includes(family)) vectors(["attn_q_norm", "attn_k_norm"], keyLength);
    if (NORMS_RESULTS.includes(family)) vectors(["post_attention_norm", "post_ffw_norm"], embedding);
    if (experts > 0) {
      if (HAS_EXPERTS.includes(family)) checkExpertTensors(header, i, { embedding, experts, family });
      continue;
    }
    if (HAS_EXPERTS.includes(family)) missing(key("expert_count"));
    const wide = (forward as number[])[i] as number;
    const isJoined = family === "phi3";
    if (!isJoined) tensor(header, `blk.${i}.ffn_gate.weight`, [embedding, wide]);
    tensor(header, `blk.${i}.ffn_up.weight`, [embedding, isJoined ? 2 * wide : wide]);
    tensor(header, `blk.${i}.ffn_down.weight`, [wide, embedding]);
  }
}

type Mixture = { embedding: number; experts: number; family: Family };

/** The inner width of an expert is the gate's: not every file has the key for it. */
function checkExpertTensors(header: Header, layer: number, { embedding, experts, family }: Mixture) {
  const name = (part: string) => `blk.${layer}.ffn_${part}.weight`;
  const wide = header.tensors.get(name("gate_exps"))?.dims[1] ?? 0;
  tensor(header, name("gate_inp"), [embedding, experts]);
  tensor(header, name("gate_exps"), [embedding, wide, experts]);
  tensor(header, name("up_exps"), [embedding, wide, experts]);
  tensor(header, name("down_exps"), [wide, embedding, experts]);
  if (family !== "gpt-oss") return;
  for (const [part, length] of [
    ["gate_exps", wide] as const,
    ["up_exps", wide] as const,
    ["down_exps", embedding] as const,
  ]) {
    const bias = `blk.${layer}.ffn_${part}.bias`;
    tensor(header, bias, [length, experts]);
    const type = header.tensors.get(bias)?.type.name; // native code asserts it
    if (type !== "F32") throw new GgufError(`Tensor ${bias} has the type ${type}, which is not supported for it`);
  }
}

/** Families whose feed-forward part is a mixture of experts: only adapters of the attention are trained. */
export const HAS_EXPERTS: readonly string[] = ["qwen3moe", "gpt-oss"];
/** Families that normalise queries and keys per head. */
export const NORMS_HEADS: readonly string[] = ["qwen3", "gemma3", "qwen3moe"];
/** Families that normalise the results of a layer's two parts. */
export const NORMS_RESULTS: readonly string[] = ["gemma2", "gemma3"];
