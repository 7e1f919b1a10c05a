/** Reads the architecture of a trainable model from a GGUF file. `families.ts` holds what differs between families. */
import { ARCHITECTURES, type Family, HAS_EXPERTS } from "../../../lib/gguf/architecture.ts";
import { count, float, string } from "../../../lib/gguf/facts.ts";
import { GgufError, type Header } from "../../../lib/gguf/parse.ts";
import { type Features, featuresOf, isUsed } from "./families.ts";

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

export type Rotation = {
  /** The first dimensions of a head are rotated, the rest stays. */
  rotated: number;
  ropeBase: number;
  /** 0: pairs of neighbours; 2: pairs of halves. */
  ropeMode: 0 | 2;
  /** Multiplies angles: 1 / the scaling factor. */
  ropeScale: number;
  yarn: Yarn;
};

export type Architecture = Rotation &
  Features & {
    name: Family;
    vocab: number;
    width: number;
    layers: number;
    heads: number;
    keyHeads: number;
    headLength: number;
    forward: number;
    epsilon: number;
    /** True if the output layer uses the embedding table. */
    tied: boolean;
  };

const MANY = { min: 1, max: 2 ** 30 };

export function architectureOf(header: Header): Architecture {
  const stored = string(header, "general.architecture") ?? "";
  const name = ARCHITECTURES.find((each) => each === stored);
  if (!name)
    throw new GgufError(
      `Models of the architecture ${stored || "(none)"} cannot be trained. Use one of ${ARCHITECTURES.join(", ")}`,
    );
  const key = (rest: string) => `${name}.${rest}`;
  const hasExperts = HAS_EXPERTS.includes(name);
  if (!hasExperts && count(header, key("expert_count"), { min: 0, max: 1024 }, 0) > 0)
    throw new GgufError(
      `Mixtures of experts of the architecture ${name} cannot be trained. Use ${HAS_EXPERTS.join(" or ")}`,
    );
  mustBeUsed(header, name);
  const width = count(header, key("embedding_length"), MANY);
  const heads = count(header, key("attention.head_count"), MANY);
  const layers = count(header, key("block_count"), MANY);
  const headLength = count(header, key("attention.key_length"), MANY, width / heads);
  const rotation = rotationOf(header, name, headLength);
  const table = header.tensors.get("token_embd.weight");
  return {
    name,
    width,
    heads,
    layers,
    headLength,
    vocab: table?.dims[1] ?? 0,
    keyHeads: count(header, key("attention.head_count_kv"), MANY, heads),
    forward: hasExperts ? expertForward(header) : count(header, key("feed_forward_length"), MANY),
    epsilon: float(header, key("attention.layer_norm_rms_epsilon"), { min: 0, max: 1 }) ?? 1e-5,
    ...rotation,
    ...featuresOf(header, name, { layers, width, heads, headLength, ...rotation }),
    tied: !header.tensors.has("output.weight"),
  };
}

/** Inner width of one expert: a dimension of its tensor, because not every file has the key for it. */
const expertForward = ({ tensors }: Header) => tensors.get("blk.0.ffn_gate_exps.weight")?.dims[1] ?? 0;

/** Names of the matrices that hold the targets: a joined matrix if it holds one of them. */
export function targetsIn({ joins }: Pick<Architecture, "joins">, targets: readonly string[]): string[] {
  const held = targets.map((name) => {
    if (joins.attention && ["attn_q", "attn_k", "attn_v"].includes(name)) return "attn_qkv";
    return joins.forward && name === "ffn_gate" ? "ffn_up" : name;
  });
  return [...new Set(held)];
}

/** Rejects unknown weights: ignoring one would silently train a different model. */
function mustBeUsed({ tensors }: Header, name: Family) {
  const stranger = [...tensors.keys()].find((of) => !isUsed(of, name));
  if (stranger !== undefined)
    throw new GgufError(`This model cannot be trained: its weight ${stranger} is unknown for the architecture ${name}`);
}

const NEIGHBOURS: readonly string[] = ["llama", "mistral3", "smollm3", "granite"];
/** True if a family's GGUF files pair neighbours of a head. Hugging Face's files pair halves. */
export const pairsNeighbours = (name: string) => NEIGHBOURS.includes(name);
const LONGROPE: readonly Family[] = ["phi3"];

function rotationOf(header: Header, name: Family, headLength: number): Rotation {
  const key = (rest: string) => `${name}.${rest}`;
  return {
    rotated: count(header, key("rope.dimension_count"), MANY, headLength),
    ropeBase: float(header, key("rope.freq_base"), { min: 1, max: 1e12 }) ?? 10_000,
    ropeMode: pairsNeighbours(name) ? 0 : 2,
    ...scalingOf(header, name),
  };
}

/** Reads scaling as llama.cpp does. An absent type means linear, an absent factor 1. */
function scalingOf(header: Header, name: Family): Pick<Rotation, "ropeScale" | "yarn"> {
  const key = (rest: string) => `${name}.rope.${rest}`;
  const type = string(header, key("scaling.type")) ?? "linear";
  const supported = ["none", "linear", "yarn", ...(LONGROPE.includes(name) ? ["longrope"] : [])];
  if (!supported.includes(type))
    throw new GgufError(`Models with ${type} position scaling cannot be trained. Supported: ${supported.join(", ")}`);
  const FACTOR = { min: 0, max: 1e6 };
  const factor = float(header, key("scaling.factor"), FACTOR) ?? float(header, key("scale_linear"), FACTOR);
  const ropeScale = type === "none" || !factor ? 1 : 1 / factor;
  const original = count(header, `${name}.context_length`, MANY, 1);
  const mix = type === "yarn" ? (float(header, key("scaling.yarn_ext_factor"), { min: 0, max: 1 }) ?? 1) : 0;
  const attention = float(header, key("scaling.attn_factor"), { min: 0, max: 100 }) ?? 1;
  const yarn: Yarn = {
    originalContext: count(header, key("scaling.original_context_length"), MANY, original),
    mix,
    attentionFactor: mix === 0 ? attention : attention * logFactor(header, name, ropeScale),
    betaFast: float(header, key("scaling.yarn_beta_fast"), FACTOR) ?? 32,
    betaSlow: float(header, key("scaling.yarn_beta_slow"), FACTOR) ?? 1,
  };
  return { ropeScale, yarn };
}

/** The length of keys that mistral3 divides by again: with a multiplier of 1, keys keep their length. */
function logFactor(header: Header, name: Family, ropeScale: number): number {
  if (name !== "mistral3") return 1;
  const multiplier = float(header, `${name}.rope.scaling.yarn_log_multiplier`, { min: 0, max: 100 }) ?? 0;
  return 1 / (1 + 0.1 * multiplier * Math.max(0, Math.log(1 / ropeScale)));
}
