/**
 * Chooses the kernels of a product or a batch. Pure. The choice between our kernels changes the speed, never the result;
 * that of cuBLAS changes the last bits.
 */
import { CHUNK, type Format, SPAN, type Tile } from "../../native/cuda/decode/kernels.ts";

export type ProductSize = { format: Format; rows: number; count: number };
/** `parts`: slices are separate results, which the next kernel adds. */
export type ProductPlan = { tile: Tile; parts: boolean };

const FEW = [8, 16, 32, 64] as const;
const MOST_FEW = 16; // tokens; beyond, tiles of BF16 weights are faster
const MANY_BLOCKS = 4; // for each multiprocessor; with fewer, the last blocks of large tiles leave most of them idle

export function planProduct({ format, rows, count }: ProductSize, multiprocessors: number): ProductPlan {
  const few = FEW.find((tokens) => count <= tokens);
  const blocks = (side: number) => Math.ceil(rows / side) * Math.ceil(count / side);
  if (format !== "bf16") {
    const each = rows / 16 / multiprocessors;
    if (few === 8) return { tile: each <= 2 ? few : each <= 3 ? "many" : "most", parts: false };
    if (few === 16) return { tile: few, parts: false };
    return { tile: "packed_32", parts: blocks(64) < 2 * multiprocessors };
  }
  if (few === 8) return { tile: rows < 16 * multiprocessors ? "deep" : few, parts: false };
  if (few !== undefined && few <= MOST_FEW) return { tile: few, parts: false };
  const parts = blocks(64) < 2 * multiprocessors;
  if (few === 32) return { tile: "rows_32", parts };
  if (blocks(128) >= MANY_BLOCKS * multiprocessors) return { tile: "tiles_128", parts: false };
  return { tile: "rows_64", parts };
}

/**
 * The least rows of a pass, and multiplications of a product, that cuBLAS is used for. `prompts`: also for passes over
 * prompts. Without it, what a prompt leaves in pages does not depend on how it was read, and a cached beginning is the same.
 */
export type Wide = { rows: number; work: number; prompts: boolean };
export const WIDE: Wide = { rows: 128, work: 2 ** 29, prompts: false }; // smaller products are faster in our kernels (H200)
export const WIDE_ROLLOUTS: Wide = { ...WIDE, rows: 64, prompts: true };

/** For requests. Our kernels read prompts of quantized weights at a fifth of the speed of cuBLAS, so that reads them. */
export const wideFor = (weights: Iterable<{ format: Format }>): Wide =>
  [...weights].every(({ format }) => format === "bf16") ? WIDE : { ...WIDE, prompts: true };

/**
 * True if cuBLAS multiplies. It sums in an order that depends on the number of rows, so passes of few rows, where a
 * sequence must not notice the others, never use it.
 */
export const isWide = ({ rows, depth, count }: { rows: number; depth: number; count: number }, least: Wide) =>
  count >= least.rows && rows * depth * count >= least.work;

/** True if steps of so many sequences may be wide. */
export const hasWidePasses = (wide: Wide | null, slots: number): boolean =>
  wide !== null && bucketOf(slots) >= wide.rows;

/** True if the last bits of a sequence may depend on the others of its batch. */
export const dependsOnBatch = (wide: Wide | null, slots: number): boolean =>
  wide !== null && (wide.prompts || hasWidePasses(wide, slots));

const BUCKETS = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256];

/** Rows of the graph that decodes this many sequences. */
export function bucketOf(rows: number): number {
  return BUCKETS.find((bucket) => rows <= bucket) ?? Math.ceil(rows / 128) * 128;
}

/** Chunks of the grid for sequences of up to this many keys: a power of two, so that there are few graphs. */
export function chunksOf(keys: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(1, Math.ceil(keys / CHUNK))));
}

/** Spans of attention over prompts of up to this many keys. */
export const spansOf = (keys: number) => Math.max(1, Math.ceil(keys / (CHUNK * SPAN)));

/**
 * Tiles of attention for rows of prompts, as first row and number of rows: neighbouring rows of one sequence, as many as
 * so many lines hold. `slots` are those of the rows.
 */
export function attentionTiles(slots: readonly number[], headsPerKey: number, lines: number): Int32Array {
  const most = Math.max(1, Math.floor(lines / headsPerKey));
  const tiles: number[] = [];
  for (let row = 0; row < slots.length; ) {
    let count = 1;
    while (count < most && slots[row + count] === slots[row]) count++;
    tiles.push(row, count);
    row += count;
  }
  return Int32Array.from(tiles);
}
