/** What a GGUF file says of a model that the trainer can train: llama, qwen2 and qwen3. */
import { count, float, string } from "../../../lib/gguf/facts.ts";
import { GgufError, type Header } from "../../../lib/gguf/parse.ts";

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
  /** 0: pairs of neighbours; 2: halves. */
  ropeMode: 0 | 2;
  ropeScale: number;
  /** The output layer is the table of embeddings. */
  tied: boolean;
};

const NAMES = ["llama", "qwen2", "qwen3"] as const;
const MANY = { min: 1, max: 1 << 24 };

export function architectureOf(header: Header): Architecture {
  const given = string(header, "general.architecture") ?? "";
  const name = NAMES.find((known) => known === given);
  if (!name)
    throw new GgufError(`Models of the architecture ${given || "(none)"} cannot be trained: ${NAMES.join(", ")} can`);
  const key = (rest: string) => `${name}.${rest}`;
  if (count(header, key("expert_count"), { min: 0, max: 1024 }, 0) > 0)
    throw new GgufError("Models with experts cannot be trained");
  const width = count(header, key("embedding_length"), MANY);
  const heads = count(header, key("attention.head_count"), MANY);
  const scaling = string(header, key("rope.scaling.type")) ?? "none";
  if (scaling !== "none" && scaling !== "linear")
    throw new GgufError(`Positions scaled by ${scaling} cannot be trained with: none and linear can`);
  const factor = float(header, key("rope.scaling.factor"), { min: 0.001, max: 1000 }) ?? 1;
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
    ropeScale: scaling === "linear" ? 1 / factor : 1,
    tied: !header.tensors.has("output.weight"),
  };
}

/** Queries and keys are normed head by head. */
export const usesHeadNorms = ({ name }: Architecture) => name === "qwen3";
