/** Reads the architecture of a trainable model from a GGUF file: llama, qwen2 and qwen3. */
import { count, float, string } from "../../../lib/gguf/facts.ts";
import { GgufError, type Header } from "../../../lib/gguf/parse.ts";

/** Scaling of the rotation for a longer context. */
export type Yarn = {
  originalContext: number;
  /** 1: only slow rotations are scaled; 0: all are scaled equally. */
  mix: number;
  /** Factor for queries and keys, in addition to the one that `mix` implies. */
  attentionFactor: number;
  betaFast: number;
  betaSlow: number;
};

export type Architecture = {
  name: "llama" | "qwen2" | "qwen3";
  vocab: number;
  width: number;
  layers: number;
  heads: number;
  keyHeads: number;
  headLength: number;
  forward: number;
  epsilon: number;
  ropeBase: number;
  /** 0: pairs of neighbours; 2: pairs of halves. */
  ropeMode: 0 | 2;
  /** Multiplies angles: 1 / the scaling factor. */
  ropeScale: number;
  yarn: Yarn;
  /** True if the output layer uses the embedding table. */
  tied: boolean;
};

const NAMES = ["llama", "qwen2", "qwen3"] as const;
const MANY = { min: 1, max: 2 ** 30 };

export function architectureOf(header: Header): Architecture {
  const given = string(header, "general.architecture") ?? "";
  const name = NAMES.find((known) => known === given);
  if (!name)
    throw new GgufError(
      `Models of the architecture ${given || "(none)"} cannot be trained. Use one of ${NAMES.join(", ")}`,
    );
  const key = (rest: string) => `${name}.${rest}`;
  if (count(header, key("expert_count"), { min: 0, max: 1024 }, 0) > 0)
    throw new GgufError("Mixture-of-experts models cannot be trained");
  mustBeUsed(header, name);
  const width = count(header, key("embedding_length"), MANY);
  const heads = count(header, key("attention.head_count"), MANY);
  const table = header.tensors.get("token_embd.weight");
  return {
    name,
    width,
    heads,
    vocab: table?.dims[1] ?? 0,
    layers: count(header, key("block_count"), MANY),
    keyHeads: count(header, key("attention.head_count_kv"), MANY, heads),
    headLength: count(header, key("attention.key_length"), MANY, width / heads),
    forward: count(header, key("feed_forward_length"), MANY),
    epsilon: float(header, key("attention.layer_norm_rms_epsilon"), { min: 0, max: 1 }) ?? 1e-5,
    ropeBase: float(header, key("rope.freq_base"), { min: 1, max: 1e12 }) ?? 10_000,
    ropeMode: name === "llama" ? 0 : 2,
    ...scalingOf(header, key),
    tied: !header.tensors.has("output.weight"),
  };
}

const ONCE = ["token_embd.weight", "output.weight", "output_norm.weight", "rope_freqs.weight"];
const IN_LAYERS = /^blk\.\d+\.((attn_(norm|q|k|v|output)|ffn_(norm|gate|up|down))\.weight|attn_[qkv]\.bias)$/;
const HEAD_NORMS = /^blk\.\d+\.attn_[qk]_norm\.weight$/;

/** Rejects unknown weights: ignoring one would silently train a different model. */
function mustBeUsed({ tensors }: Header, name: Architecture["name"]) {
  const isUsed = (of: string) => ONCE.includes(of) || IN_LAYERS.test(of) || (name === "qwen3" && HEAD_NORMS.test(of));
  const stranger = [...tensors.keys()].find((of) => !isUsed(of));
  if (stranger !== undefined)
    throw new GgufError(`This model cannot be trained: its weight ${stranger} is unknown for the architecture ${name}`);
}

/** True if queries and keys are normalised per head. */
export const usesHeadNorms = ({ name }: Architecture) => name === "qwen3";

/** Reads scaling as llama.cpp does. An absent type means linear, an absent factor 1. */
function scalingOf(header: Header, key: (rest: string) => string): Pick<Architecture, "ropeScale" | "yarn"> {
  const type = string(header, key("rope.scaling.type")) ?? "linear";
  if (!["none", "linear", "yarn"].includes(type))
    throw new GgufError(`Models with ${type} position scaling cannot be trained. Supported: none, linear and yarn`);
  const FACTOR = { min: 0, max: 1e6 };
  const given = float(header, key("rope.scaling.factor"), FACTOR) ?? float(header, key("rope.scale_linear"), FACTOR);
  const isYarn = type === "yarn";
  const original = key("rope.scaling.original_context_length");
  const yarn: Yarn = {
    originalContext: count(header, original, MANY, count(header, key("context_length"), MANY, 1)),
    mix: isYarn ? (float(header, key("rope.scaling.yarn_ext_factor"), { min: 0, max: 1 }) ?? 1) : 0,
    attentionFactor: float(header, key("rope.scaling.attn_factor"), { min: 0, max: 100 }) ?? 1,
    betaFast: float(header, key("rope.scaling.yarn_beta_fast"), { min: 0, max: 1e6 }) ?? 32,
    betaSlow: float(header, key("rope.scaling.yarn_beta_slow"), { min: 0, max: 1e6 }) ?? 1,
  };
  return { ropeScale: type === "none" || !given ? 1 : 1 / given, yarn };
}
