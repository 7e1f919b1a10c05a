/** Buffers that the fused passes keep per layer, and scratch buffers for the current layer. */
import type { AttentionKind } from "../../../../native/cuda/kernels.ts";
import type { Architecture } from "../architecture.ts";
import type { Arena, Buffer } from "./memory.ts";
import type { FusedLayer } from "./weights.ts";

export type Size = {
  /** Tokens of a row, number of rows, and their product. */
  tokens: number;
  rows: number;
  count: number;
  width: number;
  forward: number;
  heads: number;
  keyHeads: number;
  head: number;
  epsilon: number;
  /** So many pairs of a head are rotated across its halves. The others are neighbours. */
  halves: number;
  activation: Architecture["activation"];
  /** Factors of attention scores, and of what a layer adds to the residual stream. */
  scores: number;
  residual: number;
  /** Limit of attention scores; 0: none. */
  cap: number;
};

/** Activations that cost little. A graph of many tokens has them once, and the backward pass computes them again. */
export type Fleeting = {
  h1: Buffer; // normalised
  h2: Buffer;
  product: Buffer; // silu(gate) ⊙ up, or gelu(gate) ⊙ up
};

/** Results of attention and of the feed-forward part before their norms. */
export type Results = { y1: Buffer; y2: Buffer; inverse1: Buffer; inverse2: Buffer };

/** Activations of a layer that the backward pass needs. */
export type Activations = Fleeting & {
  x0: Buffer; // F32, the layer's input
  x1: Buffer; // F32, after attention
  inverse1: Buffer; // F32, 1 / rms
  inverse2: Buffer;
  raw: Buffer; // queries, keys and values before rotation; the same as `qkv` if no norm needs them
  qkv: Buffer;
  lse: Buffer;
  attended: Buffer;
  gateUp: Buffer;
  /** Null if results are not normalised. */
  results: Results | null;
};

/** Buffers of the current layer. */
export type Scratch = {
  y: Buffer; // output of a branch, added to the stream
  sum: Buffer; // F32, gradient of the residual stream
  dx: Buffer; // the same in BF16, followed by the adapters' columns
  dh: Buffer;
  dqkv: Buffer;
  dAttended: Buffer;
  dGateUp: Buffer; // gradient after the gate; later F32 parts of the gradients of keys and values
  dProduct: Buffer;
  delta: Buffer;
  dropped: Buffer; // an adapter's input after dropout
};

/** Addresses of a layer's weights that are not matrices; 0 if it has none. */
export type Constants = {
  norm1: number;
  norm2: number;
  bias: number;
  queryNorm: number;
  keyNorm: number;
  /** Norms of the results of attention and of the feed-forward part. */
  result1: number;
  result2: number;
  /** False if queries and keys of this layer are not rotated. */
  rotates: boolean;
  /** True if tokens of this layer see a window of positions. */
  isWindowed: boolean;
};

/**
 * The keys that layers of one kind attend to. `uneven`: some tiles of keys have so many queries that each head gets its own
 * blocks. `window`: positions that a token sees.
 */
export type View = {
  kind: AttentionKind;
  turns: number;
  tiles: number;
  window: number;
  readonly uneven: boolean;
};
/** `still`: no rotation. */
export type Shared = { positions: number; still: number; seen: number; full: View; windowed: View };

export const qkvWidth = ({ heads, keyHeads, head }: Size) => (heads + 2 * keyHeads) * head;

export const wantFleeting = (arena: Arena, { count }: Size, { qkv, gateUp, down }: FusedLayer): Fleeting => ({
  h1: arena.want("bf16", count * qkv.stride),
  h2: arena.want("bf16", count * gateUp.stride),
  product: arena.want("bf16", count * down.stride),
});

export function wantActivations(
  arena: Arena,
  s: Size,
  layer: FusedLayer,
  { fleeting, normsHeads, normsResults }: { fleeting: Fleeting; normsHeads: boolean; normsResults: boolean },
): Activations {
  const { count, width } = s;
  const qkv = arena.want("bf16", count * qkvWidth(s));
  return {
    ...fleeting,
    x0: arena.want("f32", count * width),
    x1: arena.want("f32", count * width),
    inverse1: arena.want("f32", count),
    inverse2: arena.want("f32", count),
    raw: normsHeads ? arena.want("bf16", count * qkvWidth(s)) : qkv,
    qkv,
    lse: arena.want("f32", count * s.heads),
    attended: arena.want("bf16", count * layer.output.stride),
    gateUp: arena.want("bf16", count * 2 * s.forward),
    results: normsResults ? wantResults(arena, s) : null,
  };
}

const wantResults = (arena: Arena, { count, width }: Size): Results => ({
  y1: arena.want("bf16", count * width),
  y2: arena.want("bf16", count * width),
  inverse1: arena.want("f32", count),
  inverse2: arena.want("f32", count),
});

type Wants = { trains: boolean; drops: boolean };

/** Size per token in BF16: keys and values of each head, in F32. */
const partsOf = ({ heads, head }: Size) => heads * head * 2 * 2;

export const dxStride = ({ output, down }: FusedLayer) => output.outputs + Math.max(output.extra, down.extra);

export function wantScratch(arena: Arena, s: Size, layer: FusedLayer, { trains, drops }: Wants): Scratch {
  const back = (count: number) => arena.want("bf16", trains ? count : 1);
  const { count, width } = s;
  return {
    y: arena.want("bf16", count * width),
    sum: arena.want("f32", trains ? count * width : 1),
    dx: back(count * dxStride(layer)),
    dh: back(count * width),
    dqkv: back(count * (qkvWidth(s) + layer.qkv.extra)),
    dAttended: back(count * s.heads * s.head),
    dGateUp: back(count * Math.max(2 * s.forward + layer.gateUp.extra, partsOf(s))),
    dProduct: back(count * s.forward),
    delta: arena.want("f32", trains ? count * s.heads : 1),
    dropped: arena.want("bf16", drops ? count * Math.max(width, s.forward, s.heads * s.head) : 1),
  };
}
