import type { Architecture } from "../trainer/engine/architecture.ts";

/**
 * Features of a model that the kernels of decoding do not compute. Those of training compute more: a model can be trained by
 * our kernels and decoded by the library.
 */
export function unsupported(of: Architecture): string[] {
  const { scales, caps, joins } = of;
  const found: Record<string, boolean> = {
    "a rotated part of a head": of.rotated !== of.headLength,
    "a window of positions": of.window !== null,
    "norms after a layer's parts": of.postNorms,
    "a mixture of experts": of.experts !== null,
    "joined matrices": joins.attention || joins.forward,
    GeGLU: of.activation !== "silu",
    "scaled embeddings, layers or logits": [scales.embedding, scales.residual, scales.logits].some((by) => by !== 1),
    "scaled attention scores": scales.scores !== 1 / Math.sqrt(of.headLength),
    "limited scores or logits": caps.scores !== 0 || caps.logits !== 0,
    "queries that grow with the position": of.temperature !== null,
    "layers without rotation": of.rotates.includes(false),
  };
  return Object.keys(found).filter((feature) => found[feature]);
}
