/** The arguments of kernels for the numbers that adapters add to the products of a pass. */
import {
  type Device,
  GATE_UP_THREADS,
  SUM_PARTS,
  slicesOf,
  sumsShared,
  TILE_WORDS,
} from "../../../native/cuda/decode/kernels.ts";
import type { From } from "../passes.ts";
import type { AdapterTable } from "./store.ts";

/** Addresses of the adapter of each row and of the tiles, and the number of tiles in the grid. */
export type AdaptersAt = { rows: number; tiles: number; tileCount: number; head: boolean };

/** The adapters of a pass at some neighbouring matrices. */
export type Added = { values: readonly number[]; blocks: number };
export const NONE: Added = { values: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0], blocks: 0 };

/** `place`: the first matrix of the product. */
export function addedAt(
  table: AdapterTable | null,
  at: AdaptersAt | undefined,
  { place, matrices }: { place: number; matrices: number },
): Added {
  if (!table || !at) return NONE;
  const parts = Math.floor(SUM_PARTS / matrices);
  const values = [
    ...[table.table, at.rows, at.tiles, table.sums],
    ...[table.stride, place, matrices, at.tileCount, parts, 0],
  ];
  return { values, blocks: at.tileCount * matrices * parts };
}

/** `multiply`, and A · x beside it by a kernel of its own, for products that do not bring it along. */
export function besideSums(device: Device, { values, blocks }: Added, { x, depth }: From, multiply: () => void) {
  if (blocks > 0) {
    const slices = slicesOf(depth);
    const how = { grid: [blocks, 1, 1] as const, threads: 32 * slices, shared: sumsShared(slices), beside: true };
    device.launch("adapter_sums", how, [...values, x, depth, depth, slices]);
  }
  multiply();
  if (blocks > 0) device.join();
}

/** Joins the gates and ups in `both` to `to`, with what adapters add to them. */
export function joinGates(
  device: Device,
  at: AdaptersAt,
  { values }: Added,
  of: Record<"both" | "to" | "forward", number> & { activation: "silu" | "gelu" },
) {
  const grid = [Math.ceil(of.forward / 2 / GATE_UP_THREADS), at.tileCount, 1] as const;
  device.launch("adapter_gate_up", { grid, threads: GATE_UP_THREADS }, [
    ...[of.both, of.to, ...values, of.forward, of.activation === "gelu" ? 1 : 0],
  ]);
}

export function addToLogits(device: Device, added: Added, of: Record<"at" | "stride" | "vocab" | "count", number>) {
  const grid = [Math.ceil(of.vocab / 256), of.count, 1] as const;
  device.launch("adapter_logits", { grid, threads: 256 }, [of.at, of.stride, of.vocab, ...added.values]);
}

/** Words of `count` tiles: those behind the last are empty. */
export const paddedTiles = (words: readonly number[], count: number) => [
  ...words,
  ...new Array<number>(count * TILE_WORDS - words.length).fill(-1),
];
