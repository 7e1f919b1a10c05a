/**
 * One layer forward and back, kernel by kernel. Between products everything is BF16; the residual stream and its
 * gradient are F32. A step reads what earlier steps wrote on the same stream, so no synchronisation is needed.
 *
 * Shapes are [rows, columns]. T is `count`, the tokens of all rows; W is the width of the residual stream, F the inner
 * width of the feed-forward part, Q = (heads + 2 · keyHeads) · head. A matrix that an adapter reads has `stride`
 * columns: its inputs and the adapters' columns.
 */
import { ATTENTION } from "../../../../native/cuda/kernels.ts";
import { type Activations, type Constants, dxStride, qkvWidth } from "./buffers.ts";
import type { Buffer } from "./memory.ts";
import { type On, project, projectBack, rowThreads } from "./project.ts";
import { tilesOf } from "./sight.ts";
import type { FusedLayer, Group } from "./weights.ts";

export function addNorm(
  { kernels, size }: Pick<On, "kernels" | "size">,
  from: { x: number; more: number },
  to: { x: Buffer; normed: Buffer; inverse: Buffer },
  how: { weight: number; stride: number },
) {
  const { count, width, epsilon } = size;
  kernels.launch("add_norm", { grid: [count, 1, 1], threads: rowThreads(width), shared: width * 4 }, [
    ...[from.x, from.more, to.x.at, how.weight, to.normed.at, to.inverse.at],
    ...[width, how.stride, epsilon],
  ]);
}

const sight = ({ size, shared }: On) => [
  shared.seen,
  shared.tiles,
  size.heads,
  size.keyHeads,
  size.tokens,
  1 / Math.sqrt(size.head),
];
const turnsIn = ({ shared }: On, { rotates }: Constants) => (rotates ? shared.turns : shared.still);
const headsOf = ({ size }: On) => [size.heads, size.keyHeads, size.head, size.halves ? 1 : 0, size.epsilon, size.count];
const warpGrid = (warps: number) => ({ grid: [Math.ceil(warps / 8), 1, 1] as const, threads: 256 });

/** `from`: the previous layer's output, x + more. `down`: true if the last product is needed, in scratch.y. */
export function layerForward(
  on: On,
  layer: FusedLayer,
  { kept, constants: c }: { kept: Activations; constants: Constants },
  { from, down }: { from: { x: number; more: number }; down: boolean },
) {
  const { kernels, size, shared, scratch } = on;
  const { count, tokens, rows, heads, keyHeads, head } = size;
  const first = { x: kept.x0, normed: kept.h1, inverse: kept.inverse1 };
  addNorm(on, from, first, { weight: c.norm1, stride: layer.qkv.stride });
  project(on, layer.qkv, kept.h1, kept.raw); // h1 [T, W + adapters] → raw [T, Q]
  const q = qkvWidth(size);
  kernels.launch("turn_heads", warpGrid(count * (heads + 2 * keyHeads)), [
    ...[kept.raw.at, q, kept.qkv.at, q, shared.positions, turnsIn(on, c), c.bias, c.queryNorm, c.keyNorm],
    ...headsOf(on),
  ]);
  const blocks = Math.ceil(tokens / ATTENTION.queries[head]);
  kernels.launch(`attention_${head}`, { grid: [blocks, heads, rows], threads: ATTENTION.threads }, [
    ...[kept.qkv.at, q, kept.attended.at, layer.output.stride, kept.lse.at],
    ...sight(on),
  ]);
  project(on, layer.output, kept.attended, scratch.y); // attended [T, heads · head + adapters] → y [T, W]
  const second = { x: kept.x1, normed: kept.h2, inverse: kept.inverse2 };
  addNorm(on, { x: kept.x0.at, more: scratch.y.at }, second, { weight: c.norm2, stride: layer.gateUp.stride });
  project(on, layer.gateUp, kept.h2, kept.gateUp); // h2 [T, W + adapters] → gateUp [T, 2F]
  gate(on, layer, kept);
  // product [T, F + adapters] → y [T, W]
  if (down) project(on, layer.down, kept.product, scratch.y);
  else project(on, layer.down, kept.product);
}

const gate = ({ kernels, size: { forward, count } }: On, { down }: FusedLayer, { gateUp, product }: Activations) =>
  kernels.launch("gate_up", columnsGrid(forward, count), [gateUp.at, product.at, forward, down.stride]);

const columnsGrid = (width: number, count: number) => ({
  grid: [count, Math.ceil(width / 8 / 128), 1] as const,
  threads: 128,
});

/**
 * scratch.sum and scratch.dx hold the gradient of the layer's output. Afterwards they hold that of its input, if
 * `goesOn`. `isFresh`: the fleeting activations are still those of this layer.
 */
export function layerBackward(
  on: On,
  layer: FusedLayer,
  { kept, constants: c }: { kept: Activations; constants: Constants },
  { goesOn, isFresh }: { goesOn: boolean; isFresh: boolean },
) {
  const { kernels, size, scratch } = on;
  const { count, width, forward } = size;
  const stride = dxStride(layer);
  const dx = { dy: scratch.dx, dyStride: stride };
  const normBack = (x: Buffer, inverse: Buffer, weight: number) =>
    kernels.launch("norm_back", { grid: [count, 1, 1], threads: rowThreads(width) }, [
      ...[scratch.dh.at, 0, 0, x.at, inverse.at, weight, scratch.sum.at, scratch.dx.at, width, stride, 0],
    ]);
  const normAgain = (group: Group, x: Buffer, normed: Buffer, inverse: Buffer, weight: number) => {
    if (isFresh || group.extra === 0) return; // only adapters read it
    addNorm(on, { x: x.at, more: 0 }, { x, normed, inverse }, { weight, stride: group.stride });
    project(on, group, normed);
  };
  if (!isFresh && layer.down.extra > 0) {
    gate(on, layer, kept);
    project(on, layer.down, kept.product);
  }
  projectBack(on, layer.down, { x: kept.product, ...dx, dx: scratch.dProduct }); // dx [T, stride] → dProduct [T, F]
  const gateUpStride = 2 * forward + layer.gateUp.extra;
  kernels.launch("gate_up_back", columnsGrid(forward, count), [
    ...[kept.gateUp.at, scratch.dProduct.at, scratch.dGateUp.at, forward, gateUpStride],
  ]);
  normAgain(layer.gateUp, kept.x1, kept.h2, kept.inverse2, c.norm2);
  projectBack(on, layer.gateUp, { x: kept.h2, dy: scratch.dGateUp, dyStride: gateUpStride, dx: scratch.dh });
  normBack(kept.x1, kept.inverse2, c.norm2);
  projectBack(on, layer.output, { x: kept.attended, ...dx, dx: scratch.dAttended });
  attentionBack(on, layer, kept, c);
  normAgain(layer.qkv, kept.x0, kept.h1, kept.inverse1, c.norm1);
  const ofQkv = { x: kept.h1, dy: scratch.dqkv, dyStride: qkvWidth(size) + layer.qkv.extra };
  projectBack(on, layer.qkv, goesOn ? { ...ofQkv, dx: scratch.dh } : ofQkv);
  if (goesOn) normBack(kept.x0, kept.inverse1, c.norm1);
}

function attentionBack(on: On, layer: FusedLayer, kept: Activations, c: Constants) {
  const { kernels, size, shared, scratch } = on;
  const { count, tokens, rows, heads, keyHeads, head } = size;
  const q = qkvWidth(size);
  const dStride = q + layer.qkv.extra;
  const lanes = (count * heads * head) / 8;
  kernels.launch("attention_delta", { grid: [Math.ceil(lanes / 256), 1, 1], threads: 256 }, [
    ...[kept.attended.at, layer.output.stride, scratch.dAttended.at, heads * head, scratch.delta.at],
    ...[heads, head, tokens, count],
  ]);
  // qkv and dqkv [T, Q], dAttended [T, heads · head], lse and delta [rows, heads, tokens]
  const values = [kept.qkv.at, q, scratch.dAttended.at, heads * head, kept.lse.at, scratch.delta.at];
  const parts = shared.uneven ? scratch.dGateUp.at : 0;
  const all = [...values, scratch.dqkv.at, dStride, parts, ...sight(on)];
  const { threads, backQueries } = ATTENTION;
  const keyGrid = [shared.uneven ? heads : keyHeads, tilesOf(tokens), rows] as const;
  kernels.launch(`attention_back_keys_${head}`, { grid: keyGrid, threads }, all);
  if (shared.uneven)
    kernels.launch("sum_heads", { grid: [Math.ceil((count * keyHeads * head) / 4 / 256), 1, 1], threads: 256 }, [
      ...[parts, scratch.dqkv.at, dStride, heads, keyHeads, head, count],
    ]);
  const queryGrid = [Math.ceil(tokens / backQueries), heads, rows] as const;
  kernels.launch(`attention_back_queries_${head}`, { grid: queryGrid, threads }, all);
  kernels.launch("turn_heads_back", warpGrid(count * (heads + keyHeads)), [
    ...[scratch.dqkv.at, dStride, kept.raw.at, q, shared.positions, turnsIn(on, c), c.bias, c.queryNorm, c.keyNorm],
    ...headsOf(on),
  ]);
}
