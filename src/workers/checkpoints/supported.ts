/** Variants of a family that llama.cpp computes differently from Hugging Face: a clear sentence instead of wrong text. */

import { CheckpointError, type Family } from "../../lib/checkpoints/families.ts";
import { attentionScalar, type Config } from "./config.ts";

const QUANTIZED_AS_TENSORS = ["fp8", "mxfp4", "compressed-tensors", "fbgemm_fp8"];

export function requireSupported(config: Config, family: Family) {
  const { quantization_config: quantization } = config;
  const method = (quantization as { quant_method?: unknown } | undefined)?.quant_method;
  if (method !== undefined && !QUANTIZED_AS_TENSORS.includes(String(method)))
    throw new CheckpointError(
      `The weights are quantized with ${String(method).slice(0, 40)}, which is not supported: use the original model and \`--quantize Q8_0\``,
    );
  if (family.normsFromZero) requireAttentionScale(config);
  if (family.architecture === "smollm3") requireEveryFourth(config);
  if (family.architecture === "qwen3moe" && config.norm_topk_prob !== true)
    throw new CheckpointError(
      "config.json: norm_topk_prob must be true; models whose expert weights do not add up to 1 are not supported",
    );
}

function requireAttentionScale(config: Config) {
  const { query_pre_attn_scalar: scalar } = config;
  const expected = attentionScalar(config);
  if (scalar !== undefined && scalar !== expected)
    throw new CheckpointError(
      `config.json: query_pre_attn_scalar is ${String(scalar).slice(0, 40)}, but only ${expected} is supported for this size`,
    );
}

/** llama.cpp leaves out the rotation in every fourth layer. */
function requireEveryFourth({ no_rope_layers: rotated }: Config) {
  if (
    rotated === undefined ||
    (Array.isArray(rotated) && rotated.every((value, i) => (value === 0) === ((i + 1) % 4 === 0)))
  )
    return;
  throw new CheckpointError(
    "config.json: no_rope_layers must leave out every fourth layer; other patterns are not supported",
  );
}
