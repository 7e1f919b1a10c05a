/** Metadata and weights by which the families of random models differ from llama. */
import type { Family } from "../src/lib/gguf/architecture.ts";
import { f32, type GgufTensor, type GgufValue, str, u32 } from "./gguf_writer.ts";

type Shape = { layers: number; width: number; ff: number; heads: number; kvHeads: number; keyLength: number };

/** Values that make a difference within twenty tokens. */
export function familyMetadata(arch: Family, { keyLength, ff }: Shape): Record<string, GgufValue> {
  const own: Partial<Record<Family, Record<string, GgufValue>>> = {
    mistral3: {
      "rope.scaling.type": str("yarn"),
      "rope.scaling.factor": f32(4),
      "rope.scaling.original_context_length": u32(9),
      "rope.scaling.yarn_log_multiplier": f32(1),
      "attention.temperature_scale": f32(0.3),
    },
    granite: {
      embedding_scale: f32(3),
      residual_scale: f32(0.6),
      "attention.scale": f32(0.2),
      logit_scale: f32(0.7),
    },
    phi3: {
      "rope.dimension_count": u32(keyLength / 2),
      "rope.scaling.original_context_length": u32(16),
      "rope.scaling.attn_factor": f32(1.2),
    },
    qwen3moe: experts(ff),
    "gpt-oss": {
      ...experts(ff),
      "attention.sliding_window": u32(5),
      "rope.scaling.type": str("yarn"),
      "rope.scaling.factor": f32(4),
      "rope.scaling.original_context_length": u32(9),
    },
    gemma2: {
      attn_logit_softcapping: f32(4),
      final_logit_softcapping: f32(6),
      "attention.sliding_window": u32(5),
    },
    gemma3: {
      "attention.sliding_window": u32(5),
      "attention.sliding_window_pattern": u32(2),
      "rope.freq_base": f32(1_000_000),
      "rope.freq_base_swa": f32(1000),
      "rope.scaling.type": str("linear"),
      "rope.scaling.factor": f32(4),
    },
  };
  return Object.fromEntries(Object.entries(own[arch] ?? {}).map(([key, value]) => [`${arch}.${key}`, value]));
}

const EXPERTS = 4;
const experts = (ff: number) => ({
  expert_count: u32(EXPERTS),
  expert_used_count: u32(2),
  expert_feed_forward_length: u32(ff),
});

/** The weights of a llama in the form that the family has. */
export function familyTensors(arch: Family, given: readonly GgufTensor[], shape: Shape): GgufTensor[] {
  if (arch === "phi3") return [...joined(given, shape), ...factors(shape)];
  if (arch === "qwen3moe" || arch === "gpt-oss") return mixed(arch, given, shape);
  if (arch !== "gemma2" && arch !== "gemma3") return [...given];
  const norms = Array.from({ length: shape.layers }, (_, layer) => [
    vector(`blk.${layer}.post_attention_norm.weight`, shape.width, 4),
    vector(`blk.${layer}.post_ffw_norm.weight`, shape.width, 2),
    ...(arch === "gemma3"
      ? ["q", "k"].map((part) => vector(`blk.${layer}.attn_${part}_norm.weight`, shape.keyLength, 1))
      : []),
  ]);
  const kept = given.filter(({ name }) => name !== "output.weight");
  return [
    ...kept.map((each) => (each.name === "token_embd.weight" ? smaller(each, shape.width) : each)),
    ...norms.flat(),
  ];
}

/** Gemma multiplies embeddings by √width, and its output layer is the same table. */
const smaller = (each: GgufTensor, width: number): GgufTensor => ({
  ...each,
  values: each.values.map((value) => value / Math.sqrt(width)),
});

const vector = (name: string, length: number, mean: number): GgufTensor => ({
  name,
  shape: [length],
  type: "F32",
  values: Float32Array.from({ length }, (_, i) => mean * (1 + 0.3 * Math.sin(7 * i + name.length))),
});

/** Each expert is the llama's own network with its numbers in another order. */
function mixed(arch: Family, given: readonly GgufTensor[], { layers, width, keyLength, ff, heads, kvHeads }: Shape) {
  const expert = ({ values }: GgufTensor, e: number) => values.map((_, i) => values[(i + 37 * e) % values.length]!);
  const tensors = given.map((each): GgufTensor => {
    const [, name = ""] = /^(blk\.\d+\.ffn_(?:gate|up|down))\.weight$/.exec(each.name) ?? [];
    if (name === "") return each;
    const all = Array.from({ length: EXPERTS }, (_, e) => [...expert(each, e)]).flat();
    return { ...each, name: `${name}_exps.weight`, shape: [...each.shape, EXPERTS], values: Float32Array.from(all) };
  });
  for (let layer = 0; layer < layers; layer++) {
    const name = (part: string) => `blk.${layer}.${part}`;
    const router = vector(name("ffn_gate_inp.weight"), width * EXPERTS, 0);
    const values = Float32Array.from({ length: width * EXPERTS }, (_, i) => Math.sin(i * 12.9 + layer));
    tensors.push({ ...router, shape: [width, EXPERTS], values });
    if (arch === "qwen3moe")
      tensors.push(...["q", "k"].map((part) => vector(name(`attn_${part}_norm.weight`), keyLength, 2)));
    if (arch !== "gpt-oss") continue;
    const norm = tensors.find((each) => each.name === name("ffn_norm.weight")) as GgufTensor;
    norm.name = name("post_attention_norm.weight");
    const matrix = (of: GgufTensor, length: number) => ({ ...of, shape: [length, EXPERTS] });
    tensors.push(
      vector(name("attn_sinks.weight"), heads, 1.5),
      vector(name("attn_q.bias"), heads * keyLength, 0.3),
      vector(name("attn_k.bias"), kvHeads * keyLength, 0.3),
      vector(name("attn_v.bias"), kvHeads * keyLength, 0.3),
      vector(name("attn_output.bias"), width, 0.3),
      vector(name("ffn_gate_inp.bias"), EXPERTS, 0.5),
      matrix(vector(name("ffn_gate_exps.bias"), ff * EXPERTS, 2), ff),
      matrix(vector(name("ffn_up_exps.bias"), ff * EXPERTS, 6), ff), // near the limit of 7
      matrix(vector(name("ffn_down_exps.bias"), width * EXPERTS, 0.3), width),
    );
  }
  return tensors;
}

function joined(given: readonly GgufTensor[], { layers }: Shape): GgufTensor[] {
  const parts = new Map(given.map((each) => [each.name, each]));
  for (let layer = 0; layer < layers; layer++) {
    const name = (part: string) => `blk.${layer}.${part}.weight`;
    const join = (to: string, from: readonly string[]) => {
      const all = from.map((part) => parts.get(name(part)) as GgufTensor);
      for (const part of from) parts.delete(name(part));
      const outputs = all.reduce((sum, { shape }) => sum + (shape[1] ?? 0), 0);
      const values = Float32Array.from(all.flatMap((each) => [...each.values]));
      parts.set(name(to), {
        ...(all[0] as GgufTensor),
        name: name(to),
        shape: [all[0]?.shape[0] ?? 0, outputs],
        values,
      });
    };
    join("attn_qkv", ["attn_q", "attn_k", "attn_v"]);
    join("ffn_up", ["ffn_gate", "ffn_up"]);
  }
  return [...parts.values()];
}

const factors = ({ keyLength }: Shape): GgufTensor[] => [
  vector("rope_factors_long.weight", keyLength / 4, 3),
  vector("rope_factors_short.weight", keyLength / 4, 1.2),
];
