/** Models whose rollouts our own kernels draw. They decode more families than those, whose samples were not compared. */
import type { Header } from "../../../lib/gguf/parse.ts";
import { reasonAgainst } from "../../decoder/model.ts";
import { architectureOf } from "../engine/architecture.ts";

/**
 * Why our kernels do not draw samples from this model, or null. They round weights to BF16. Only for half precision is
 * that what the trainer computes with.
 */
export function reasonNotDrawn(header: Header): string | null {
  const isHalf = [...header.tensors.values()].every(
    ({ dims, type }) => dims.length < 2 || type.name === "F16" || type.name === "BF16",
  );
  return isHalf ? (reasonAgainst(header) ?? specialFeature(header)) : "its weights are not in BF16 or F16";
}

function specialFeature(header: Header): string | null {
  const of = architectureOf(header);
  const { scales, caps, joins, yarn } = of;
  if (of.headLength !== 64 && of.headLength !== 128) return `heads of ${of.headLength} numbers`;
  const features: Record<string, boolean> = {
    "YaRN scaling": yarn.mix !== 0 || yarn.attentionFactor !== 1,
    "a rotated part of a head": of.rotated !== of.headLength,
    "a window of positions": of.window !== null,
    "norms after a layer's parts": of.postNorms,
    "joined matrices": joins.attention || joins.forward,
    GeGLU: of.activation !== "silu",
    "scaled embeddings, layers or logits": [scales.embedding, scales.residual, scales.logits].some((by) => by !== 1),
    "scaled attention scores": scales.scores !== 1 / Math.sqrt(of.headLength),
    "limited scores or logits": caps.scores !== 0 || caps.logits !== 0,
    "queries that grow with the position": of.temperature !== null,
    "layers without rotation": of.rotates.includes(false),
  };
  return Object.keys(features).find((feature) => features[feature]) ?? null;
}
