/** Products with weights and their adapters, forward and backward. */
import type { Kernels } from "../../../../native/cuda/kernels.ts";
import type { Scratch, Shared, Size } from "./buffers.ts";
import { type Buffer, matrixOf, past } from "./memory.ts";
import type { Exact } from "./sampler/exact.ts";
import type { Adapter, Group } from "./weights.ts";

/**
 * Dropout of adapter inputs, by address: F32 patterns for rows of a width, and the choice of each token for a matrix.
 */
export type Dropping = { patterns: (width: number) => number; choice: (name: string) => number };

export type On = {
  kernels: Kernels;
  size: Size;
  shared: Shared;
  scratch: Scratch;
  /** Compute without adapters. */
  reference: boolean;
  dropping: Dropping | null;
  /** The forward pass multiplies by the sampler's weights, as the sampler does. */
  exact: Exact | null;
  /** A backward pass follows, which needs the adapters' columns. */
  trains: boolean;
};

/** Number of threads for a row; each thread takes eight numbers at a time. */
export const rowThreads = (width: number) => Math.min(256, Math.ceil(width / 8 / 32) * 32);

/** Computes the adapters' columns of x, then x·[W B]ᵀ times `by`. Without `to`, only the columns. */
export function project(on: On, group: Group, x: Buffer, to?: Buffer, by = 1) {
  const { products } = on.kernels;
  const { inputs, outputs, stride, matrix } = group;
  const rows = on.size.count;
  const extra = on.reference || (on.exact && !on.trains) ? 0 : group.extra;
  const from = { at: x.at, stride };
  if (extra > 0 && on.dropping) {
    for (const adapter of group.adapters) {
      const low = { at: past("bf16", x.at, inputs + adapter.column), stride };
      products.byRows(dropped(on, group, x, adapter), aOf(group, adapter), low, {
        rows,
        columns: adapter.rank,
        depth: inputs,
      });
    }
  } else if (extra > 0) {
    const low = { at: past("bf16", x.at, inputs), stride };
    products.byRows(from, matrixOf(group.a), low, { rows, columns: extra, depth: inputs });
  }
  if (!to) return;
  if (on.exact)
    return on.exact.multiply(
      from,
      on.exact.weightsOf(group),
      { at: to.at, stride: outputs },
      { count: rows, depth: inputs },
    );
  group.ready();
  const extent = { rows, columns: outputs, depth: inputs + extra };
  products.byRows(from, { at: matrix.at, stride }, { at: to.at, stride: outputs, by }, extent);
}

type Back = { x: Buffer; dy: Buffer; dyStride: number; dx?: Buffer };

/**
 * Computes the gradients of the adapters and, if requested, of x. The rows of dy have room for the adapters' columns.
 */
export function projectBack(on: On, group: Group, of: Back) {
  const { products } = on.kernels;
  const { inputs, outputs, extra, stride, matrix, ofA, ofB } = group;
  const rows = on.size.count;
  const dy = { at: of.dy.at, stride: of.dyStride };
  if (extra > 0) {
    const low = { at: past("bf16", of.x.at, inputs), stride };
    const dLow = { at: past("bf16", of.dy.at, outputs), stride: of.dyStride };
    products.plain(dy, matrixOf(group.b), dLow, { rows, columns: extra, depth: outputs });
    const toB = { at: ofB.at, stride: extra, f32: true };
    products.byColumns(dy, low, toB, { rows: outputs, columns: extra, depth: rows });
    const toA = { at: ofA.at, stride: inputs, f32: true };
    if (!on.dropping)
      products.byColumns(dLow, { at: of.x.at, stride }, toA, { rows: extra, columns: inputs, depth: rows });
  }
  const depth = on.dropping ? outputs : outputs + extra;
  if (of.dx) {
    const to = { at: of.dx.at, stride: inputs };
    group.ready();
    products.plain(dy, { at: matrix.at, stride }, to, { rows, columns: inputs, depth });
  }
  if (on.dropping) for (const adapter of group.adapters) adapterBack(on, group, of, adapter);
}

const aOf = ({ a }: Group, { column }: Adapter) => matrixOf({ ...a, first: a.first + column * a.stride });

/** Returns x after this adapter's dropout. */
function dropped(on: On, { inputs, stride }: Group, x: Buffer, { name }: Adapter) {
  const { patterns, choice } = on.dropping as Dropping;
  const to = on.scratch.dropped.at;
  on.kernels.launch("drop_rows", { grid: [on.size.count, 1, 1], threads: rowThreads(inputs) }, [
    ...[x.at, stride, patterns(inputs), choice(name), to, inputs],
  ]);
  return { at: to, stride: inputs };
}

/** One adapter at a time, because each has its own dropped input. */
function adapterBack(on: On, group: Group, of: Back, adapter: Adapter) {
  const { products } = on.kernels;
  const { inputs, outputs, ofA } = group;
  const { column, rank, name } = adapter;
  const rows = on.size.count;
  const dLow = { at: past("bf16", of.dy.at, outputs + column), stride: of.dyStride };
  const toA = { at: past("f32", ofA.at, column * inputs), stride: inputs, f32: true };
  products.byColumns(dLow, dropped(on, group, of.x, adapter), toA, { rows: rank, columns: inputs, depth: rows });
  if (!of.dx) return;
  const { patterns, choice } = on.dropping as Dropping;
  const part = { at: on.scratch.dropped.at, stride: inputs };
  products.plain(dLow, aOf(group, adapter), part, { rows, columns: inputs, depth: rank });
  on.kernels.launch("add_dropped", { grid: [rows, 1, 1], threads: rowThreads(inputs) }, [
    ...[part.at, patterns(inputs), choice(name), of.dx.at, inputs],
  ]);
}
