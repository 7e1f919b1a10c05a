/**
 * Bytes of one training graph, counted from what the backward pass reads. On the tape everything is F32. In the fused
 * kernels most is BF16, and attention keeps no scores.
 */
import { HAS_EXPERTS, NORMS_HEADS, NORMS_RESULTS } from "../gguf/architecture.ts";

/** Differences between families that change the memory of a graph. */
export type Traits = {
  normsHeads: boolean;
  /** The results of attention and of the feed-forward part are normalised. */
  normsResults: boolean;
  /** Attention scores have a limit: their curve is kept too. */
  limitsScores: boolean;
  /** Logits have a limit: their curve is kept too. */
  limitsLogits: boolean;
  usesGelu: boolean;
  /** Some layers have a second mask. */
  hasWindows: boolean;
  /** The feed-forward part is a mixture of experts, whose matrices are never stored transposed. */
  hasExperts: boolean;
  /** Gates have limits: their gradient takes more steps, each with a result of its own. */
  limitsGates: boolean;
  /** Our own kernels can compute the family. */
  canFuse: boolean;
};

export const traitsOf = (family: string): Traits => ({
  normsHeads: NORMS_HEADS.includes(family),
  normsResults: NORMS_RESULTS.includes(family),
  limitsScores: family === "gemma2",
  limitsLogits: family === "gemma2",
  usesGelu: family === "gemma2" || family === "gemma3",
  hasWindows: ["gemma2", "gemma3", "gpt-oss"].includes(family),
  hasExperts: HAS_EXPERTS.includes(family),
  limitsGates: family === "gpt-oss",
  canFuse: !HAS_EXPERTS.includes(family),
});

const HEADS = { plain: [64, 96, 128, 256], limited: [128, 256] };

/** True if our own kernels have the length of the heads. Few of them know windows and limits of scores. */
export const fusesHeads = (length: number, of: Pick<Traits, "hasWindows" | "limitsScores">): boolean =>
  (of.hasWindows || of.limitsScores ? HEADS.limited : HEADS.plain).includes(length);

export type Dimensions = Traits & {
  layers: number;
  width: number;
  heads: number;
  keyHeads: number;
  headLength: number;
  /** Inner width of a layer, for one token. */
  forward: number;
  /** Absent without experts. `used`: experts of one token. `forward`: inner width of all experts of a layer together. */
  mixture?: { used: number; forward: number };
  vocab: number;
};

export type Micro = {
  /** Tokens of a row, and number of rows. */
  tokens: number;
  rows: number;
  scored: number;
  attentionBlock: number;
  headChunk: number;
  trainsAll: boolean;
  /** Bytes of one weight of a frozen matrix. */
  weightBytes: number;
  /** True if frozen matrices are also stored transposed: the backward pass then makes no copy. */
  holdsTurned: boolean;
  /** True if our own kernels compute it. */
  isFused: boolean;
  recomputes: boolean;
};

const F32 = 4;

/** Numbers that a layer keeps for one token: for attention, and after it. */
function keptOf(of: Dimensions, { tokens, trainsAll }: Pick<Micro, "tokens" | "trainsAll">) {
  const { width, heads, keyHeads, headLength, forward } = of;
  const [q, kv] = [heads * headLength, keyHeads * headLength];
  const normed = trainsAll ? width : 0; // the gradient of a norm's weight needs the normalised values
  const headNorms = of.normsHeads ? q + kv : 0;
  const result = of.normsResults ? width + normed : 0;
  const scores = tokens * heads * (of.limitsScores ? 2 : 1);
  // Experts are frozen: the input of their last matrix is not kept, but each expert's result is, for the router.
  const inner = of.mixture ? 2 * forward + of.mixture.used * width : 3 * forward;
  return {
    attention: 2 * width + 2 * q + 3 * kv + scores + normed + headNorms + result,
    behind: 2 * width + inner + normed + result,
  };
}

/** Bytes that all layers keep if none is computed again. */
export function keptBytes(of: Dimensions, micro: Omit<Micro, "recomputes">): number {
  const count = micro.tokens * micro.rows;
  if (micro.isFused) return of.layers * count * fusedLayer(of);
  const { attention, behind } = keptOf(of, micro);
  return of.layers * count * F32 * (attention + behind);
}

export function activationBytes(of: Dimensions, micro: Micro): number {
  return micro.isFused ? fusedBytes(of, micro) : tapeBytes(of, micro);
}

function tapeBytes(of: Dimensions, micro: Micro): number {
  const { tokens, rows, recomputes: again } = micro;
  const count = tokens * rows;
  const { attention, behind } = keptOf(of, micro);
  const inputs = again ? of.layers * of.width : 0;
  const others = again ? inputs : (of.layers - 1) * (attention + behind);
  const scores = of.heads * micro.attentionBlock;
  const atAttention = others + attention + 3.5 * scores; // the softmax's input, output and transposed copy
  const behindIt = others + attention + behind + (of.limitsGates ? 6 : 2) * of.forward;
  const matrix = of.width * (of.mixture?.forward ?? of.forward);
  const how = of.mixture ? { ...micro, holdsTurned: false } : micro;
  const turned = micro.trainsAll ? matrix * F32 : turnedBytes(matrix, how);
  const layers = count * F32 * Math.max(atAttention, behindIt) + turned;
  const beforeHead = again ? inputs : of.layers * (attention + behind);
  const mask = tokens * tokens * rows * F32 * (of.hasWindows ? 2 : 1);
  const ends = count * of.width * F32;
  return mask + ends + Math.max(layers, count * F32 * beforeHead + headBytes(of, micro));
}

function headBytes({ vocab, width, limitsLogits }: Dimensions, micro: Micro): number {
  const table = vocab * micro.headChunk * F32;
  const curve = limitsLogits ? table : 0;
  // the transposed table, and the gradient of the layer itself
  if (micro.trainsAll) return 2 * table + curve + 2 * vocab * width * F32;
  return table + curve + turnedBytes(vocab * width, micro);
}

/** A transposed copy of a frozen matrix, if none is stored; a quantized one is decoded first. */
function turnedBytes(elements: number, { weightBytes, holdsTurned }: Micro): number {
  if (weightBytes < 1.5) return elements * 2 * F32;
  return holdsTurned ? 0 : elements * Math.round(weightBytes);
}

/** Bytes of one token: two residuals in F32, the rest in BF16. */
function fusedLayer({ width, heads, keyHeads, headLength, forward, normsHeads, normsResults }: Dimensions): number {
  const [q, all] = [heads * headLength, (heads + 2 * keyHeads) * headLength];
  const results = normsResults ? 4 * width : 0; // before their norms
  return results + 8 * width + 2 * all * (normsHeads ? 2 : 1) + 2 * q + 4 * forward + 4 * heads;
}

const MOST_FLEETING = 4 * 2 ** 30; // bytes; computing them again takes 4 % of a step

const fleetingLayer = ({ width, forward }: Pick<Dimensions, "width" | "forward">) => 4 * width + 2 * forward;

/** Returns how many of the last layers keep their normalised inputs and gated products: as many as fit. */
export function layersKeepingFleeting(of: Pick<Dimensions, "layers" | "width" | "forward">, tokens: number): number {
  return Math.min(of.layers, Math.floor(MOST_FLEETING / (tokens * fleetingLayer(of))));
}

function fusedBytes(of: Dimensions, micro: Micro): number {
  const count = micro.tokens * micro.rows;
  const { width, heads, keyHeads, headLength, forward, layers } = of;
  const [q, all] = [heads * headLength, (heads + 2 * keyHeads) * headLength];
  const scratch = 14 * width + 2 * all + 2 * q + 4 * forward + Math.max(4 * forward, 8 * q) + 4 * heads;
  const again = layersKeepingFleeting(of, count) * fleetingLayer(of);
  const kept = micro.recomputes ? fusedLayer(of) + layers * 4 * width : layers * fusedLayer(of) + again;
  const head = micro.headChunk * of.vocab * 6 + micro.scored * 4 * width;
  return count * (kept + scratch + 6 * width) + head;
}
