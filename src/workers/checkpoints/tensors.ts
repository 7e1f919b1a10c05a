import type { Family } from "../../lib/checkpoints/families.ts";

/**
 * How the values of a tensor differ, from Hugging Face to GGUF. The reverse undoes it.
 *
 * - `same`: the same values in the same order
 * - `rotate_q`, `rotate_k`: rows of each head are reordered, see `rotatedRow`
 * - `add_one`: GGUF has 1 + the value
 * - `stack`: GGUF has one tensor of all experts, the first expert first
 * - `even_rows`, `odd_rows`: rows 0, 2, 4 … or 1, 3, 5 … of each expert of a tensor that holds gate and up interleaved.
 *   A packed weight (`[experts, columns, rows]`, not MXFP4) is also transposed; a bias is not.
 * - `transpose`: `[experts, columns, rows]` becomes `[experts, rows, columns]`
 */
export type Change = "same" | "rotate_q" | "rotate_k" | "add_one" | "stack" | "even_rows" | "odd_rows" | "transpose";

export type TensorName = {
  gguf: string;
  /** One name, or one for each expert (`stack`). */
  hf: readonly string[];
  change: Change;
  /** Some models of the family lack it: a bias, or the output matrix of a model with tied embeddings. */
  optional: boolean;
};

export type Size = { layers: number; experts?: number };

/** Every tensor of a model of this family, in the order of the GGUF file. */
export function tensorNames(family: Family, { layers, experts = 0 }: Size): TensorName[] {
  const norm: Change = family.normsFromZero ? "add_one" : "same";
  const names: TensorName[] = [
    one("token_embd.weight", "model.embed_tokens.weight"),
    one("output_norm.weight", "model.norm.weight", norm),
    { ...one("output.weight", "lm_head.weight"), optional: true },
  ];
  for (let layer = 0; layer < layers; layer++) {
    const at = { gguf: `blk.${layer}.`, hf: `model.layers.${layer}.` };
    for (const { gguf, hf, ...rest } of [...attentionOf(family), ...forwardOf(family, experts)])
      names.push({ gguf: at.gguf + gguf, hf: hf.map((name) => at.hf + name), ...rest });
  }
  return names;
}

const one = (gguf: string, hf: string, change: Change = "same"): TensorName => ({
  gguf,
  hf: [hf],
  change,
  optional: false,
});

const bias = (gguf: string, hf: string, change: Change = "same"): TensorName => ({
  ...one(gguf, hf, change),
  optional: true,
});

function attentionOf(family: Family): TensorName[] {
  const norm: Change = family.normsFromZero ? "add_one" : "same";
  const [q, k]: Change[] = family.rotated ? ["rotate_q", "rotate_k"] : ["same", "same"];
  const names = [one("attn_norm.weight", "input_layernorm.weight", norm)];
  if (family.fused) names.push(one("attn_qkv.weight", "self_attn.qkv_proj.weight"));
  else
    for (const [letter, change] of [
      ["q", q],
      ["k", k],
      ["v", "same"],
    ] as const) {
      names.push(one(`attn_${letter}.weight`, `self_attn.${letter}_proj.weight`, change));
      names.push(bias(`attn_${letter}.bias`, `self_attn.${letter}_proj.bias`, change));
    }
  names.push(one("attn_output.weight", "self_attn.o_proj.weight"));
  names.push(bias("attn_output.bias", "self_attn.o_proj.bias"));
  if (family.qkNorms) {
    names.push(one("attn_q_norm.weight", "self_attn.q_norm.weight", norm));
    names.push(one("attn_k_norm.weight", "self_attn.k_norm.weight", norm));
  }
  if (family.experts === "packed") names.push(one("attn_sinks.weight", "self_attn.sinks"));
  return names;
}

function forwardOf(family: Family, experts: number): TensorName[] {
  if (family.experts === "packed") return packedExperts();
  const norm: Change = family.normsFromZero ? "add_one" : "same";
  const names = family.sandwich
    ? [
        one("post_attention_norm.weight", "post_attention_layernorm.weight", norm),
        one("ffn_norm.weight", "pre_feedforward_layernorm.weight", norm),
        one("post_ffw_norm.weight", "post_feedforward_layernorm.weight", norm),
      ]
    : [one("ffn_norm.weight", "post_attention_layernorm.weight", norm)];
  if (family.experts === "separate") return [...names, ...separateExperts(experts)];
  if (family.fused) names.push(one("ffn_up.weight", "mlp.gate_up_proj.weight"));
  for (const part of family.fused ? ["down"] : ["gate", "up", "down"]) {
    names.push(one(`ffn_${part}.weight`, `mlp.${part}_proj.weight`));
    if (!family.fused) names.push(bias(`ffn_${part}.bias`, `mlp.${part}_proj.bias`));
  }
  return names;
}

const separateExperts = (experts: number): TensorName[] => [
  one("ffn_gate_inp.weight", "mlp.gate.weight"),
  ...["gate", "up", "down"].map(
    (part): TensorName => ({
      gguf: `ffn_${part}_exps.weight`,
      hf: Array.from({ length: experts }, (_, i) => `mlp.experts.${i}.${part}_proj.weight`),
      change: "stack",
      optional: false,
    }),
  ),
];

/** gpt-oss. With MXFP4 weights the names end in `_blocks` and `_scales`. */
const packedExperts = (): TensorName[] => [
  one("post_attention_norm.weight", "post_attention_layernorm.weight"),
  one("ffn_gate_inp.weight", "mlp.router.weight"),
  one("ffn_gate_inp.bias", "mlp.router.bias"),
  one("ffn_gate_exps.weight", "mlp.experts.gate_up_proj", "even_rows"),
  one("ffn_up_exps.weight", "mlp.experts.gate_up_proj", "odd_rows"),
  one("ffn_down_exps.weight", "mlp.experts.down_proj", "transpose"),
  one("ffn_gate_exps.bias", "mlp.experts.gate_up_proj_bias", "even_rows"),
  one("ffn_up_exps.bias", "mlp.experts.gate_up_proj_bias", "odd_rows"),
  one("ffn_down_exps.bias", "mlp.experts.down_proj_bias"),
];

/**
 * The row in Hugging Face of a row in GGUF, for `rotate_q` and `rotate_k`. Hugging Face rotates the first half of a head
 * against its second half; GGUF has the two of a pair side by side.
 */
export function rotatedRow(row: number, headLength: number): number {
  const within = row % headLength;
  return row - within + Math.floor(within / 2) + (within % 2) * (headLength / 2);
}

/** The reverse of `rotatedRow`: the row in GGUF of a row in Hugging Face. */
export function unrotatedRow(row: number, headLength: number): number {
  const within = row % headLength;
  const half = headLength / 2;
  return row - within + (within < half ? within * 2 : (within - half) * 2 + 1);
}
