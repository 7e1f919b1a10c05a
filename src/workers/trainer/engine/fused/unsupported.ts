import { isHeadLength } from "../../../../native/cuda/kernels.ts";
import type { Architecture } from "../architecture.ts";

const MOST_WIDTH = 12_288; // limit of a row in shared memory

/** True if the kernels can compute models of this shape, for positions below `longest`. */
export function fitsKernels(of: Architecture, longest: number): boolean {
  const { headLength, width, forward } = of;
  if (!isHeadLength(headLength) || width % 8 !== 0 || forward % 8 !== 0 || width > MOST_WIDTH) return false;
  return unsupported(of, longest).length === 0;
}

/** Features of a model that the kernels do not compute. Such a model uses the tape on the GPU. */
export function unsupported(of: Architecture, longest: number): string[] {
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
    "queries that grow with the position": of.temperature !== null && longest > of.temperature.length,
  };
  return Object.keys(found).filter((feature) => found[feature]);
}
