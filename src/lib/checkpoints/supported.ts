/** Variants of a family that llama.cpp computes differently from Hugging Face: a clear sentence instead of wrong text. */
import { type Config, headLength } from "./config.ts";
import { CheckpointError, type Family } from "./families.ts";

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
}

/** llama.cpp derives the scale of Gemma's attention from the head length, except in the 27B models. */
function requireAttentionScale(config: Config) {
  const {
    query_pre_attn_scalar: given,
    hidden_size: hidden,
    num_attention_heads: heads,
    num_hidden_layers: layers,
  } = config;
  const largest = layers === 46 || layers === 62; // Gemma 2 and 3 with 27B parameters
  const expected = largest ? Number(hidden) / Number(heads) : headLength(config);
  if (given !== undefined && given !== expected)
    throw new CheckpointError(
      `config.json: query_pre_attn_scalar is ${String(given).slice(0, 40)}, but only ${expected} is supported for this size`,
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
