/** Attention of one layer, kernel by kernel: rotation, scores, mixing, and the way back. */
import { ATTENTION, blockOf } from "../../../../native/cuda/kernels.ts";
import { type Activations, type Constants, qkvWidth, type View } from "./buffers.ts";
import type { On } from "./project.ts";
import { tilesOf } from "./sight.ts";
import type { FusedLayer } from "./weights.ts";

const viewOf = ({ shared }: On, { isWindowed }: Constants) => (isWindowed ? shared.windowed : shared.full);
const sight = ({ size, shared }: On, { tiles, window }: View) => [
  ...[shared.seen, tiles, size.heads, size.keyHeads, size.tokens],
  ...[size.scores, window, size.cap],
];
const turnsIn = (on: On, c: Constants) => (c.rotates ? viewOf(on, c).turns : on.shared.still);
const headsOf = ({ size }: On) => [size.heads, size.keyHeads, size.head, size.halves, size.epsilon, size.count];
const warpGrid = (warps: number) => ({ grid: [Math.ceil(warps / 8), 1, 1] as const, threads: 256 });

/** raw [T, Q] → attended [T, heads · head]. */
export function attend(on: On, layer: FusedLayer, kept: Activations, c: Constants) {
  const { kernels, size, shared } = on;
  const { count, tokens, rows, heads, keyHeads } = size;
  const q = qkvWidth(size);
  const view = viewOf(on, c);
  kernels.launch("turn_heads", warpGrid(count * (heads + 2 * keyHeads)), [
    ...[kept.raw.at, q, kept.qkv.at, q, shared.positions, turnsIn(on, c), c.bias, c.queryNorm, c.keyNorm],
    ...headsOf(on),
  ]);
  const blocks = Math.ceil(tokens / blockOf(view.kind).queries);
  kernels.launch(`attention_${view.kind}`, { grid: [blocks, heads, rows], threads: ATTENTION.threads }, [
    ...[kept.qkv.at, q, kept.attended.at, layer.output.stride, kept.lse.at],
    ...sight(on, view),
  ]);
}

/** Lanes that sum up a head: as many as a power of two divides its pieces of eight numbers. */
const lanesOf = (head: number) => (head / 8) & -(head / 8);

/** scratch.dAttended → scratch.dqkv, the gradient of `raw`. */
export function attentionBack(on: On, layer: FusedLayer, kept: Activations, c: Constants) {
  const { kernels, size, shared, scratch } = on;
  const { count, tokens, rows, heads, keyHeads, head } = size;
  const q = qkvWidth(size);
  const dStride = q + layer.qkv.extra;
  const view = viewOf(on, c);
  const lanes = count * heads * lanesOf(head);
  kernels.launch("attention_delta", { grid: [Math.ceil(lanes / 256), 1, 1], threads: 256 }, [
    ...[kept.attended.at, layer.output.stride, scratch.dAttended.at, heads * head, scratch.delta.at],
    ...[heads, head, tokens, count],
  ]);
  // qkv and dqkv [T, Q], dAttended [T, heads · head], lse and delta [rows, heads, tokens]
  const values = [kept.qkv.at, q, scratch.dAttended.at, heads * head, kept.lse.at, scratch.delta.at];
  const parts = view.uneven ? scratch.dGateUp.at : 0;
  const all = [...values, scratch.dqkv.at, dStride, parts, ...sight(on, view)];
  const { threads, backQueries } = ATTENTION;
  const keyBlocks = (view.uneven ? heads : keyHeads) * blockOf(view.kind).parts;
  kernels.launch(`attention_back_keys_${view.kind}`, { grid: [keyBlocks, tilesOf(tokens), rows], threads }, all);
  if (view.uneven)
    kernels.launch("sum_heads", { grid: [Math.ceil((count * keyHeads * head) / 4 / 256), 1, 1], threads: 256 }, [
      ...[parts, scratch.dqkv.at, dStride, heads, keyHeads, head, count],
    ]);
  const queryGrid = [Math.ceil(tokens / backQueries), heads, rows] as const;
  kernels.launch(`attention_back_queries_${view.kind}`, { grid: queryGrid, threads }, all);
  kernels.launch("turn_heads_back", warpGrid(count * (heads + keyHeads)), [
    ...[scratch.dqkv.at, dStride, kept.raw.at, q, shared.positions, turnsIn(on, c), c.bias, c.queryNorm, c.keyNorm],
    ...headsOf(on),
  ]);
}
