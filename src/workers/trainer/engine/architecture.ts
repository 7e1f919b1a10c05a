/** Reads the architecture of a trainable model from a GGUF file. `families.ts` holds what differs between families. */
import { ARCHITECTURES, type Family, HAS_EXPERTS } from "../../../lib/gguf/architecture.ts";
import { count, float, string } from "../../../lib/gguf/facts.ts";
import { GgufError, type Header } from "../../../lib/gguf/parse.ts";
import { type Features, featuresOf, isUsed } from "./families.ts";
import { type Rotation, rotationOf } from "./rotation.ts";

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
  const given = string(header, "general.architecture") ?? "";
  const name = ARCHITECTURES.find((known) => known === given);
  if (!name)
    throw new GgufError(
      `Models of the architecture ${given || "(none)"} cannot be trained. Use one of ${ARCHITECTURES.join(", ")}`,
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
