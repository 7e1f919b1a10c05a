/**
 * Products of the exact forward pass. They multiply by the weights of the sampler, in which the adapter is merged, as an
 * exact sampler does: by cublasLt where the number of rows does not change its bits, else by the kernels of decoding. A
 * row's sums then have the same order in both. Adapters' columns are still computed, because the backward pass needs them;
 * it is the usual one.
 */
import { MODE, productShared, slicesOf, TILES } from "../../../../../native/cuda/decode/kernels.ts";
import type { Matrix } from "../../../../../native/cuda/kernel_products.ts";
import type { Kernels } from "../../../../../native/cuda/kernels.ts";
import { TYPE } from "../../../../../native/ggml/ggml.ts";
import type { WeightPlace, WeightPlaces } from "../../../../../native/llama/weights.ts";
import type { FusedLayer, Group } from "../weights.ts";

/** Rows of every operand, and the beginnings of sequences and answers, are multiples of this: keys of a tile of attention. */
export const EXACT_ROWS = 64;

/** A weight with `rows` rows; several of them are over each other. */
export type Rows = Matrix & { rows: number };
export type ExactProducts = (
  x: Matrix,
  weights: readonly Rows[],
  to: Matrix & { f32?: boolean },
  of: { count: number; depth: number },
) => void;

export type Exact = { multiply: ExactProducts; weightsOf: (group: Group) => readonly Rows[] };

/** Throws if the sampler has a weight elsewhere, or in another type. */
export function openExact(kernels: Kernels, layers: readonly FusedLayer[], places: WeightPlaces): Exact {
  const rowsByGroup = new Map<Group, readonly Rows[]>();
  for (const { qkv, output, gateUp, down } of layers)
    for (const group of [qkv, output, gateUp, down])
      rowsByGroup.set(
        group,
        group.parts.map(({ name, outputs }) => rowsOf(name, places(name), { rows: outputs, columns: group.inputs })),
      );
  return { multiply: byLibrary(kernels) ?? byTiles(kernels), weightsOf: (group) => rowsByGroup.get(group)! };
}

function rowsOf(name: string, place: WeightPlace | null, { rows, columns }: { rows: number; columns: number }): Rows {
  if (!place?.onDevice || place.type !== TYPE.BF16 || place.rows !== rows || place.columns !== columns)
    throw new Error(`The sampler has no ${name} that the trainer can multiply by`);
  return { at: place.address, stride: columns, rows };
}

function byLibrary(kernels: Kernels): ExactProducts | null {
  const products = kernels.exact();
  if (!products) return null;
  return (x, weights, to, { count, depth }) => {
    let column = 0;
    for (const weight of weights) {
      const into = { ...to, at: to.at + column * (to.f32 ? 4 : 2) };
      products.byRows(x, weight, into, { rows: count, columns: weight.rows, depth });
      column += weight.rows;
    }
  };
}

/** The larger tile computes as many rows as possible, if they fill the device. The smaller one gives the same bits. */
function byTiles(kernels: Kernels): ExactProducts {
  return (x, weights, to, { count, depth }) => {
    if (count % EXACT_ROWS !== 0) throw new RangeError(`${count} rows are not a multiple of ${EXACT_ROWS}`);
    const rows = weights.reduce((sum, each) => sum + each.rows, 0);
    const large = TILES.tiles_128;
    const blocks = Math.ceil(rows / large.rows) * Math.floor(count / large.tokens);
    const byLarge = blocks < kernels.multiprocessors ? 0 : Math.floor(count / large.tokens) * large.tokens;
    const run = (tile: "tiles_64" | "tiles_128", first: number, some: number) => {
      if (some === 0) return;
      const { rows: tileRows, tokens, threads } = TILES[tile];
      const [one, two, three] = weights as [Rows, Rows?, Rows?];
      const slices = slicesOf(depth);
      const secondAt = two ? one.rows : rows;
      const how = { grid: [Math.ceil(rows / tileRows), some / tokens, 1] as const, threads };
      kernels.launch(`product_${tile}`, { ...how, shared: productShared({ format: "bf16", tile, slices }) }, [
        ...[one.at, two?.at ?? 0, three?.at ?? 0, x.at + first * x.stride * 2],
        to.at + first * to.stride * (to.f32 ? 4 : 2),
        ...[secondAt, three ? secondAt + two!.rows : rows, rows, depth, one.stride],
        ...[some, x.stride, to.stride, to.f32 ? MODE.logits : MODE.whole, slices, 0, 0],
      ]);
    };
    run("tiles_128", 0, byLarge);
    run("tiles_64", byLarge, count - byLarge);
  };
}
