/**
 * One layer forward and back, kernel by kernel. Between products everything is BF16; the residual stream and its
 * gradient are F32. A step reads what earlier steps wrote on the same stream, so no synchronisation is needed.
 *
 * Shapes are [rows, columns]. T is `count`, the tokens of all rows; W is the width of the residual stream, F the inner
 * width of the feed-forward part, Q = (heads + 2 · keyHeads) · head. A matrix that an adapter reads has `stride`
 * columns: its inputs and the adapters' columns.
 */
import { attend, attentionBack } from "./attend.ts";
import { type Activations, type Constants, dxStride, qkvWidth } from "./buffers.ts";
import type { Buffer } from "./memory.ts";
import { type On, project, projectBack, rowThreads } from "./project.ts";
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

/** `from`: the previous layer's output, x + more. `down`: true if the last product is needed, in scratch.y. */
export function layerForward(
  on: On,
  layer: FusedLayer,
  { kept, constants: c }: { kept: Activations; constants: Constants },
  { from, down }: { from: { x: number; more: number }; down: boolean },
) {
  const { scratch } = on;
  const first = { x: kept.x0, normed: kept.h1, inverse: kept.inverse1 };
  addNorm(on, from, first, { weight: c.norm1, stride: layer.qkv.stride });
  project(on, layer.qkv, kept.h1, kept.raw); // h1 [T, W + adapters] → raw [T, Q]
  attend(on, layer, kept, c);
  // attended [T, heads · head + adapters] → y [T, W]
  const results = kept.results;
  branch(on, layer.output, kept.attended, results && { y: results.y1, inverse: results.inverse1, weight: c.result1 });
  const second = { x: kept.x1, normed: kept.h2, inverse: kept.inverse2 };
  addNorm(on, { x: kept.x0.at, more: scratch.y.at }, second, { weight: c.norm2, stride: layer.gateUp.stride });
  project(on, layer.gateUp, kept.h2, kept.gateUp); // h2 [T, W + adapters] → gateUp [T, 2F]
  gate(on, layer, kept);
  // product [T, F + adapters] → y [T, W]
  if (down || results)
    branch(on, layer.down, kept.product, results && { y: results.y2, inverse: results.inverse2, weight: c.result2 });
  else project(on, layer.down, kept.product);
}

/** A result of a layer's part before its norm. */
type Result = { y: Buffer; inverse: Buffer; weight: number };

/** The last product of a part, as it is added to the residual stream: in scratch.y. */
function branch(on: On, group: Group, x: Buffer, result: Result | null) {
  const { kernels, size, scratch } = on;
  const { count, width, epsilon, residual } = size;
  if (!result) return project(on, group, x, scratch.y, residual);
  project(on, group, x, result.y);
  kernels.launch("norm_result", { grid: [count, 1, 1], threads: rowThreads(width) }, [
    ...[result.y.at, result.weight, scratch.y.at, result.inverse.at, width, epsilon, residual],
  ]);
}

/** Turns the gradient of the residual stream into that of a part's result, in scratch.dx. */
function branchBack({ kernels, size, scratch }: On, layer: FusedLayer, { y, inverse, weight }: Result) {
  const { count, width, residual } = size;
  kernels.launch("norm_result_back", { grid: [count, 1, 1], threads: rowThreads(width) }, [
    ...[scratch.sum.at, y.at, inverse.at, weight, scratch.dx.at, width, dxStride(layer), residual],
  ]);
}

const gate = ({ kernels, size }: On, { down }: FusedLayer, { gateUp, product }: Activations) => {
  const { activation, forward, count } = size;
  const name = activation === "gelu" ? "gelu_up" : "gate_up";
  kernels.launch(name, columnsGrid(forward, count), [gateUp.at, product.at, forward, down.stride]);
};

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
  const { count, width, forward, activation, residual } = size;
  const { results } = kept;
  const stride = dxStride(layer);
  const dx = { dy: scratch.dx, dyStride: stride };
  const normBack = (x: Buffer, inverse: Buffer, weight: number) =>
    kernels.launch("norm_back", { grid: [count, 1, 1], threads: rowThreads(width) }, [
      ...[scratch.dh.at, 0, 0, x.at, inverse.at, weight, scratch.sum.at, scratch.dx.at, width, stride, 0],
      residual,
    ]);
  const normAgain = (group: Group, x: Buffer, normed: Buffer, inverse: Buffer, weight: number) => {
    if (isFresh || group.extra === 0) return; // only adapters read it
    addNorm(on, { x: x.at, more: 0 }, { x, normed, inverse }, { weight, stride: group.stride });
    project(on, group, normed);
  };
  if (results) branchBack(on, layer, { y: results.y2, inverse: results.inverse2, weight: c.result2 });
  if (!isFresh && layer.down.extra > 0) {
    gate(on, layer, kept);
    project(on, layer.down, kept.product);
  }
  projectBack(on, layer.down, { x: kept.product, ...dx, dx: scratch.dProduct }); // dx [T, stride] → dProduct [T, F]
  const gateUpStride = 2 * forward + layer.gateUp.extra;
  kernels.launch(activation === "gelu" ? "gelu_up_back" : "gate_up_back", columnsGrid(forward, count), [
    ...[kept.gateUp.at, scratch.dProduct.at, scratch.dGateUp.at, forward, gateUpStride],
  ]);
  normAgain(layer.gateUp, kept.x1, kept.h2, kept.inverse2, c.norm2);
  projectBack(on, layer.gateUp, { x: kept.h2, dy: scratch.dGateUp, dyStride: gateUpStride, dx: scratch.dh });
  normBack(kept.x1, kept.inverse2, c.norm2);
  if (results) branchBack(on, layer, { y: results.y1, inverse: results.inverse1, weight: c.result1 });
  projectBack(on, layer.output, { x: kept.attended, ...dx, dx: scratch.dAttended });
  attentionBack(on, layer, kept, c);
  normAgain(layer.qkv, kept.x0, kept.h1, kept.inverse1, c.norm1);
  const ofQkv = { x: kept.h1, dy: scratch.dqkv, dyStride: qkvWidth(size) + layer.qkv.extra };
  projectBack(on, layer.qkv, goesOn ? { ...ofQkv, dx: scratch.dh } : ofQkv);
  if (goesOn) normBack(kept.x0, kept.inverse1, c.norm1);
}
