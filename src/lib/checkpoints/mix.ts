/** The types of tensors in a quantized model, mixed as llama.cpp does under the same names. Pure. */
import type { Encoded } from "./numbers.ts";

export const QUANTIZATIONS = ["Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M"] as const;
export type Quantization = (typeof QUANTIZATIONS)[number];

/** Types that only ggml can encode. */
export const BLOCK_TYPES = ["Q4_K", "Q5_K", "Q6_K", "Q5_0", "Q5_1"] as const;
export type BlockType = (typeof BLOCK_TYPES)[number];
export type StoredType = Encoded | BlockType;

export type MixedModel = {
  architecture: string;
  layers: number;
  experts: number;
  heads: number;
  kvHeads: number;
  /** It has an output matrix of its own. Otherwise its token embeddings serve as one. */
  hasOutput: boolean;
};

const PLAIN = { Q8_0: "Q8_0", Q6_K: "Q6_K", Q5_K_M: "Q5_K", Q4_K_M: "Q4_K" } as const;
const SUPER_BLOCK = 256;
const BLOCK = 32;
/** For rows that are not a multiple of a super block. */
const SMALLER: Partial<Record<StoredType, StoredType>> = { Q4_K: "Q5_0", Q5_K: "Q5_1", Q6_K: "Q8_0" };

/** The type of a matrix. Undefined: its rows fit no block, so it keeps its precision. */
export function mixedType(
  quantization: Quantization,
  matrix: { name: string; columns: number },
  model: MixedModel,
): StoredType | undefined {
  const { name, columns } = matrix;
  if (columns % BLOCK !== 0) return undefined;
  const wanted = quantization === "Q8_0" ? "Q8_0" : wantedType(quantization, name, model);
  return columns % SUPER_BLOCK === 0 ? wanted : (SMALLER[wanted] ?? wanted);
}

function wantedType(quantization: Exclude<Quantization, "Q8_0">, name: string, model: MixedModel): StoredType {
  const plain = PLAIN[quantization];
  const { layers, experts, hasOutput } = model;
  if (name === "output.weight" || (name === "token_embd.weight" && !hasOutput)) return "Q6_K";
  const layer = Number(/^blk\.(\d+)\./.exec(name)?.[1] ?? 0);
  const isMixed = quantization !== "Q6_K";
  const more: StoredType = isMixed && usesMoreBits(layer, layers) ? "Q6_K" : plain;
  if (name.endsWith("attn_v.weight")) {
    if (experts === 8) return "Q8_0";
    return isLarge(model) && more === "Q4_K" ? "Q5_K" : more;
  }
  if (name.endsWith("attn_k.weight") && experts === 8) return "Q8_0";
  if (name.includes("ffn_down")) return more;
  if (name.endsWith("attn_output.weight") && experts === 8 && plain === "Q4_K") return "Q5_K";
  if (name.endsWith("attn_qkv.weight") && isMixed) return quantization === "Q4_K_M" ? "Q5_K" : "Q6_K";
  return plain;
}

/** The first and the last eighth of the layers, and every third between them. */
function usesMoreBits(layer: number, layers: number): boolean {
  const eighth = Math.floor(layers / 8);
  return layer < eighth || layer >= Math.floor((7 * layers) / 8) || (layer - eighth) % 3 === 2;
}

/** Models of 70B share each value head among many query heads, so more bits for it cost little. */
const isLarge = ({ architecture, layers, heads, kvHeads }: MixedModel) =>
  layers === 80 && (architecture === "qwen2" || (architecture === "llama" && heads !== kvHeads));
