/** The kernels of decoding and what it takes to start them. `Device` is the only access to them and to their memory. */
import type { KvType } from "../../../lib/gguf/memory.ts";
import type { Grid } from "../driver.ts";
import type { Products } from "../kernel_products.ts";

export const DECODE_FILE = "verk-decode.fatbin";

const BRANCH = "ppii"; // whole, parts, slices, slice stride
const PAGES = "ppii"; // base, table, table stride, key heads
const ROWS = "pppi"; // slots, tokens, positions, count
export const PRODUCT = "ppppp" + "iiiii" + "iii" + "iiii";
const ADAPTERS = "ppppiiiiii"; // table, rows, tiles, sums, stride, place, matrices, tiles, parts of a sum
const FEW = PRODUCT + ADAPTERS;
const READY = "pppii"; // halves, sums of groups, scales, stride of scales
const PACKED_PRODUCT = PRODUCT + READY;
const ATTENTION = `p${PAGES}${ROWS}ppppiiifiiifp`;
const TURN = `${BRANCH}p${PAGES}${ROWS}pppppiiiifiii${ADAPTERS}`;
const EXACT_ATTENTION = `p${PAGES}${ROWS}pppiifi`;

/** Parameters of each kernel, in the order of kernels/decode: p is an address, i an integer, f a float. */
export const DECODE_SIGNATURES = {
  begin_step: "ppiiiiii",
  embed_rows: "pippif",
  norm_rows: `p${BRANCH}ppiiff${ADAPTERS}${READY}`,
  norm_branch: `${BRANCH}ppif${ADAPTERS}`,
  join_gelu: "ppii",
  cap_logits: "piif",
  turn_rows: TURN,
  turn_rows_256: TURN,
  turn_rows_q8: TURN,
  turn_rows_q8_256: TURN,
  copy_pages: "ppii",
  to_bf16: "ppii",
  product_bf16_deep: FEW,
  product_bf16_8: FEW,
  product_bf16_16: FEW,
  product_bf16_32: FEW,
  product_bf16_64: FEW,
  product_q8_8: PACKED_PRODUCT,
  product_q8_many: PACKED_PRODUCT,
  product_q8_16: PACKED_PRODUCT,
  product_q8_packed_32: PACKED_PRODUCT,
  product_q4_8: PACKED_PRODUCT,
  product_q4_many: PACKED_PRODUCT,
  product_q4_16: PACKED_PRODUCT,
  product_q4_packed_32: PACKED_PRODUCT,
  product_q6_8: PACKED_PRODUCT,
  product_q6_many: PACKED_PRODUCT,
  product_q6_16: PACKED_PRODUCT,
  product_q6_packed_32: PACKED_PRODUCT,
  ready_rows: `pii${READY}`,
  pack_tiles: "ppiiii",
  unpack_tiles: "ppiiii",
  product_rows_32: FEW,
  product_rows_64: FEW,
  product_tiles_64: PRODUCT,
  product_tiles_128: PRODUCT,
  adapter_sums: `${ADAPTERS}piii`,
  adapter_gate_up: `pp${ADAPTERS}ii`,
  adapter_logits: `pii${ADAPTERS}`,
  place_rows: "ppiiiiif",
  attend_64: ATTENTION,
  attend_q8_64: ATTENTION,
  attend_prompt_64: ATTENTION,
  attend_prompt_q8_64: ATTENTION,
  join_64: ATTENTION,
  attend_96: ATTENTION,
  attend_q8_96: ATTENTION,
  attend_prompt_96: ATTENTION,
  attend_prompt_q8_96: ATTENTION,
  join_96: ATTENTION,
  attend_128: ATTENTION,
  attend_q8_128: ATTENTION,
  attend_prompt_128: ATTENTION,
  attend_prompt_q8_128: ATTENTION,
  join_128: ATTENTION,
  attend_256: ATTENTION,
  attend_q8_256: ATTENTION,
  attend_prompt_256: ATTENTION,
  attend_prompt_q8_256: ATTENTION,
  join_256: ATTENTION,
  attend_exact_64: EXACT_ATTENTION,
  attend_exact_128: EXACT_ATTENTION,
  draw_tokens: `pppppppp${"i".repeat(10)}`,
} as const;

export type DecodeKernel = keyof typeof DECODE_SIGNATURES;
/**
 * `alone`: it does not begin before the kernel before it has ended. `beside`: it is queued beside what comes next, after all
 * that came before. `Device.join` waits for it.
 */
export type Start = { grid: Grid; threads: number; shared?: number; alone?: boolean; beside?: boolean };

/** Numbers that the kernels fix; names as in kernels/decode. */
export const PAGE = 32;
export const CHUNK = 256;
export const DRAWING_WORDS = 20;
export const MOST_ALTERNATIVES = 20;
export const RESULT_WORDS = 4;
export const MODE = { whole: 0, logits: 1, gated: 2, parts: 3 } as const;
export const FORMAT = { bf16: 0, q8: 1, q4: 2, q6: 3 } as const;
export type Format = keyof typeof FORMAT;

export const MOST_SLICES = 8;
/** Slices of a sum. A function of its length alone: the result must not depend on the batch. */
export const slicesOf = (depth: number) => (depth >= 2048 ? MOST_SLICES : 4);

/** Rows and tokens of a block's tile, and its threads if they do not depend on the slices. */
export const TILES = {
  deep: { rows: 16, tokens: 8 },
  8: { rows: 16, tokens: 8 },
  many: { rows: 16, tokens: 8 },
  most: { rows: 16, tokens: 8 },
  16: { rows: 16, tokens: 16 },
  32: { rows: 16, tokens: 32 },
  64: { rows: 32, tokens: 64 },
  rows_32: { rows: 64, tokens: 32, threads: 128 },
  rows_64: { rows: 64, tokens: 64, threads: 128 },
  tiles_64: { rows: 64, tokens: 64, threads: 128 },
  tiles_128: { rows: 128, tokens: 128, threads: 256 },
  packed_32: { rows: 64, tokens: 32, threads: 128 },
} as const;
export type Tile = keyof typeof TILES;

/** Numbers of a row in a tile of eight rows of packed weights, and the tile's bytes. */
export const PACKED: Readonly<Record<Exclude<Format, "bf16">, { numbers: number; tile: number }>> = {
  q8: { numbers: 64, tile: 544 },
  q4: { numbers: 256, tile: 1152 },
  q6: { numbers: 256, tile: 1680 },
};
export const PACKED_ROWS = 8;
/** `embed_rows` takes this and the format if the table is packed. */
export const IS_PACKED = 4;
/** Activations that are ready for packed weights have a scale for each block, and sums of its eight groups. */
export const READY_BLOCK = 256;
export const readyBlocks = (depth: number) => Math.ceil(depth / READY_BLOCK);
export const READY_SUM_BYTES = 32;

const STAGES = 3;
const UNIT = 64;

/** Kernels that hold both sides in shared memory. They multiply by BF16 weights alone. */
const HOLDS_BOTH: readonly Tile[] = ["rows_32", "rows_64", "tiles_64", "tiles_128"];
/** True for kernels that have blocks for what adapters add. */
export const carriesSums = ({ format, tile }: Pick<Part, "format" | "tile">) =>
  format === "bf16" && tile !== "tiles_64" && tile !== "tiles_128";

export type Part = { format: Format; tile: Tile; slices: number };
export const productName = ({ format, tile }: Pick<Part, "format" | "tile">) =>
  (HOLDS_BOTH.includes(tile)
    ? `product_${tile}`
    : `product_${format}_${tile === "most" ? "many" : tile}`) as DecodeKernel;
export function productThreads({ tile, slices }: Pick<Part, "tile" | "slices">): number {
  const of = TILES[tile];
  return "threads" in of ? of.threads : (32 * slices) / (tile === "most" ? 2 : 1); // a warp has one slice, or two
}

/** Blocks of a product. */
export function productGrid({ tile, slices, ...of }: Part & { rows: number; count: number; parts: boolean }) {
  const { rows, tokens } = TILES[tile];
  return [Math.ceil(of.rows / rows), Math.ceil(of.count / tokens), of.parts ? slices : 1] as const;
}

/** Dynamic shared memory of a product's block, in bytes. */
export function productShared({ tile, slices }: Part): number {
  const { rows, tokens } = TILES[tile];
  if (HOLDS_BOTH.includes(tile)) return STAGES * (rows + tokens) * UNIT * 2;
  const sums = slices * tokens * (rows + 4) * 4;
  return tile === "packed_32" ? STAGES * tokens * UNIT * 2 + rows * tokens * 4 : sums;
}

/** Limits of adapters: the rank of a matrix, and rows and words of a tile. */
export const MOST_RANK = 128;
export const TILE_ROWS = 8;
export const TILE_WORDS = 9;
export const RANK_STEP = 8; // B has zeros up to a multiple of this
const RANKS = 16; // that a block sums at once
/** Results of the matrices that share an x: A · x is summed in parts. */
export const SUM_PARTS = 8;

/** Dynamic shared memory of `adapter_sums`: no more than that of a product of the same depth. */
export const sumsShared = (slices: number) => slices * TILE_ROWS * (RANKS + 4) * 4;
export const GATE_UP_THREADS = 128;

/** Numbers of `place_rows` for the formats of a file. */
export const PLACED = { F16: 0, F32: 1, BF16: 2 } as const;

export const ATTEND_THREADS = 256;
export const DRAW_THREADS = 512;
/** Lengths of heads that kernels of attention are for. A shorter head has zeros behind it. */
export const HEAD_LENGTHS = [64, 96, 128, 256] as const;
export type HeadLength = (typeof HEAD_LENGTHS)[number];
/** Null: heads are too long. */
export const keptLength = (headLength: number): HeadLength | null =>
  HEAD_LENGTHS.find((length) => headLength <= length) ?? null;

/** Bytes of the keys of a key head in a page, in BF16, or in bytes with scales in BF16. Its values have as many. */
export const keptBytes = (type: KvType, length: HeadLength) =>
  PAGE * (type === "f16" ? length * 2 : length + (length / 32) * 2);
const COLUMNS = 128; // of a head that are summed at once
/** Sums of eight warps with sixteen lines each. */
export const attendShared = (length: HeadLength) => 8 * 16 * Math.min(length, COLUMNS) * 4;

/** Chunks of a span, and lines of a block that attends to a prompt. */
export const SPAN = 8;
export const PROMPT_LINES = 64;
export const PROMPT_THREADS = 128;
/** Blocks that share a key head, each with some of its columns. */
export const promptShares = (length: HeadLength) => Math.ceil(length / COLUMNS);
/** Stages with a page of keys and one of values each. */
export const promptShared = (type: KvType, length: HeadLength) =>
  (length > COLUMNS ? 3 : 4) * 2 * keptBytes(type, length);

export const EXACT_THREADS = 128;
export const EXACT_LINES = 16;
/** Sixteen queries, and two stages of 64 keys and values. */
export const exactShared = (headLength: number) => (16 + 4 * 64) * headLength * 2;

/** The most dynamic shared memory that a kernel is started with. A row of `norm_rows` is at most 12,288 numbers. */
export function mostShared(name: DecodeKernel): number {
  const [, format = "bf16", tile] = /^product_(?:(bf16|q8|q4|q6)_)?(.+)$/.exec(name) ?? [];
  if (tile) return productShared({ format: format as Format, tile: tile as Tile, slices: MOST_SLICES });
  if (name === "adapter_sums") return sumsShared(MOST_SLICES);
  if (name.startsWith("attend_exact_")) return exactShared(Number(name.slice("attend_exact_".length)));
  const [, prompt, q8, length] = /^attend_(prompt_)?(q8_)?(\d+)$/.exec(name) ?? [];
  const kept = Number(length) as HeadLength;
  if (prompt) return promptShared(q8 ? "q8_0" : "f16", kept);
  if (length) return attendShared(kept);
  return name === "norm_rows" || name === "norm_branch" ? 12_288 * 4 : 0;
}

/** A recorded sequence of kernels. */
export type Recorded = { run: () => void; free: () => void };
/** A copy that has been queued. `wait` returns its bytes, which stay valid until the second read after this one. */
export type Read = { wait: () => Uint8Array };

/** Kernels of the trainer that passes of many rows use. Their parameters are in ../kernels.ts. */
export type WideKernel = "gate_up";
export type WideKernels = {
  products: Pick<Products, "byRows" | "byRowsOfBoth">;
  launch: (name: WideKernel, start: Start, values: readonly number[]) => void;
};

/**
 * Memory of the host that the device copies from and to by itself, while the caller goes on. `queued` is called behind the
 * copies, `isOver` says whether these have ended.
 */
export type HostMemory = {
  readonly at: number;
  readonly bytes: Uint8Array;
  queued: () => void;
  isOver: () => boolean;
  free: () => void;
};

/** Rows of `bytes` bytes, so far apart: on the host behind the beginning of an array, on the device behind `at`. */
export type HostRows = { rows: number; bytes: number; stride: number };
export type DeviceRows = { at: number; stride: number };

/** All work is queued in order. Addresses are bytes on the device. */
export type Device = {
  readonly multiprocessors: number;
  /** Memory filled with zeros. Throws OutOfMemory. */
  allocate: (bytes: number) => number;
  free: (at: number) => void;
  /** A copy from `HostMemory` is queued. Other memory may be reused at once. */
  put: (at: number, bytes: NodeJS.TypedArray) => void;
  /** `count` times so many bytes. */
  hostMemory: (bytes: number, count: number) => readonly HostMemory[];
  /** Like `put`, for rows. */
  putRows: (to: DeviceRows, from: Uint8Array, of: HostRows) => void;
  /** Queues a copy of rows into a part of `HostMemory`. */
  fetchRows: (into: Uint8Array, from: DeviceRows, of: HostRows) => void;
  /** Copies `bytes` bytes. `read` writes the piece that begins at `done` while the piece before it is on its way. */
  fill: (at: number, bytes: number, read: (into: Uint8Array, done: number) => void) => void;
  read: (at: number, bytes: number) => Read;
  /** Waits for all work before, and returns a copy of these places, one behind the other. Reads that are queued stay valid. */
  gather: (places: readonly { at: number; bytes: number }[]) => Uint8Array;
  launch: (name: DecodeKernel, start: Start, values: readonly number[]) => void;
  /** All that is queued from now on comes after kernels that were launched `beside`. */
  join: () => void;
  /** Bytes that can still be allocated. */
  freeBytes: () => number;
  /** Null where there is no cuBLAS. The first call opens it, so it must not be inside `record`. */
  wide: () => WideKernels | null;
  /** The same with products whose bits do not depend on the number of rows. Null: only our own kernels have such. */
  exact: () => WideKernels | null;
  /** Records what `act` launches, and runs nothing. */
  record: (act: () => void) => Recorded;
  /** Milliseconds that the device needs for what `act` queues. */
  time: (act: () => void) => number;
  wait: () => void;
  close: () => void;
};
