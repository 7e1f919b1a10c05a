/** The trainer's own kernels for NVIDIA GPUs. They are optional: a build may lack them, or a GPU may be too old. */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { errorText } from "../../lib/error_text.ts";
import { OutOfMemory } from "../ggml/out_of_memory.ts";
import { MOST_SLICES, PRODUCT, productShared } from "./decode/kernels.ts";
import { Arguments, cudaDriver, type Grid } from "./driver.ts";
import { type ExactProducts, hasExactProducts, openExactProducts } from "./exact_products.ts";
import { openProducts, type Products } from "./kernel_products.ts";

export const KERNELS_FILE = "verk-kernels.fatbin";
const OLDEST_MAJOR = 8; // the first with BF16 tensor cores

const SIGHT = "ppiiifif"; // seen, tiles, heads, key heads, tokens, scale, window, cap
const FORWARD = `pipip${SIGHT}`;
const BACKWARD = `pipipppip${SIGHT}`; // qkv, stride, gradient, stride, lse, delta, result, stride, parts
const HEADS = "iiiif";

/** Parameters of each kernel, in the order of kernels.cu: p is an address, i an integer, f a float. */
export const SIGNATURES = {
  embed: "pppi",
  add_norm: "ppppppiif",
  norm_back: "ppppppppiiif",
  take_rows: "pppi",
  drop_rows: "pipppi",
  add_dropped: "ppppi",
  gate_up: "ppii",
  gate_up_back: "pppii",
  turn_heads: `pipippppp${HEADS}i`,
  turn_heads_back: `pipippppp${HEADS}i`,
  attention_64: FORWARD,
  attention_96: FORWARD,
  attention_128: FORWARD,
  attention_limited_128: FORWARD,
  attention_limited_256: FORWARD,
  attention_back_queries_64: BACKWARD,
  attention_back_queries_96: BACKWARD,
  attention_back_queries_128: BACKWARD,
  attention_back_queries_limited_128: BACKWARD,
  attention_back_queries_limited_256: BACKWARD,
  attention_back_keys_64: BACKWARD,
  attention_back_keys_96: BACKWARD,
  attention_back_keys_128: BACKWARD,
  attention_back_keys_limited_128: BACKWARD,
  attention_back_keys_limited_256: BACKWARD,
  attention_delta: "pipipiiii",
  sum_heads: "ppiiiii",
  target_logps: "pippppii",
  put_adapters: "p",
  add_gradients: "p",
  place_matrix: "ppii",
  unpack_rows: "ppiii",
  embed_packed: "pppii",
  round_rows: "ppi",
  pack_nf4: "ppi",
  adam_8bit: "pppppppffffffffffi",
  merge_adapter: "pippiiiii",
  scale_rows: "pif",
  norm_result: "ppppiff",
  norm_result_back: "pppppiif",
  gelu_up: "ppii",
  gelu_up_back: "pppii",
  limit_logits: "piif",
  limit_logits_back: "pipiif",
  product_tiles_64: PRODUCT,
  product_tiles_128: PRODUCT,
} as const;

export type KernelName = keyof typeof SIGNATURES;
export type Launch = { grid: Grid; threads: number; shared?: number };

export type Kernels = {
  launch: (name: KernelName, how: Launch, values: readonly number[]) => void;
  readonly products: Products;
  /** Null if bits of these products would depend on the number of rows. The first call opens them. */
  exact: () => Pick<ExactProducts, "byRows"> | null;
  /** Number of multiprocessors, on which blocks run in parallel. */
  readonly multiprocessors: number;
  /** Makes the device current for this thread again. */
  enter: () => void;
  /** Waits for all launched kernels. */
  wait: () => void;
  close: () => void;
};

/** Keys of a tile of the backward pass, and of queries and threads of a block. */
export const ATTENTION = { keys: 64, backQueries: 64, threads: 128 } as const;

/**
 * Tiles in the shared memory of an attention kernel's block, by the length of a head: queries and keys of the forward
 * pass, keys while queries get their gradients, queries while keys do, and the parts that a head is divided into then.
 * Two of them can limit scores and windows.
 */
const BLOCKS = {
  "64": { length: 64, queries: 128, keys: 64, backKeys: 64, keyQueries: 64, parts: 1 },
  "96": { length: 96, queries: 64, keys: 64, backKeys: 64, keyQueries: 32, parts: 1 },
  "128": { length: 128, queries: 64, keys: 64, backKeys: 64, keyQueries: 32, parts: 1 },
  limited_128: { length: 128, queries: 64, keys: 64, backKeys: 64, keyQueries: 32, parts: 1 },
  limited_256: { length: 256, queries: 64, keys: 32, backKeys: 16, keyQueries: 16, parts: 2 },
} as const;
export type AttentionKind = keyof typeof BLOCKS;

/** Returns the kernels for heads of a length, or null if there are none. `limits`: with a window, or a cap of scores. */
export function attentionKind(length: number, limits: boolean): AttentionKind | null {
  const plain = `${length}`;
  const limited = `limited_${length}`;
  if (!limits && plain in BLOCKS) return plain as AttentionKind;
  return limited in BLOCKS ? (limited as AttentionKind) : null;
}

export const blockOf = (kind: AttentionKind) => BLOCKS[kind];

export function sharedBytes(name: KernelName): number {
  if (name === "product_tiles_64") return productShared({ format: "bf16", tile: "tiles_64", slices: MOST_SLICES });
  if (name === "product_tiles_128") return productShared({ format: "bf16", tile: "tiles_128", slices: MOST_SLICES });
  const [, pass = "", kind = ""] = /^attention_(back_queries_|back_keys_|)((?:limited_)?\d+)$/.exec(name) ?? [];
  const block = BLOCKS[kind as AttentionKind];
  if (!block) return 0;
  const row = block.length * 2;
  if (pass === "back_queries_") return row * (2 * ATTENTION.backQueries + 4 * block.backKeys);
  if (pass === "back_keys_") return row * (2 * ATTENTION.keys + 4 * block.keyQueries) + 12 * block.keyQueries * 4;
  return row * (block.queries + 4 * block.keys);
}

/** `dir` contains the libraries of this build. Returns null without kernels, or without a device for them. */
export function openKernels(dir: string, index: number): Kernels | null {
  const path = join(dir, KERNELS_FILE);
  if (!existsSync(path)) return null;
  try {
    return load(path, index);
  } catch (error) {
    if (error instanceof OutOfMemory) throw error;
    const why = errorText(error);
    process.stderr.write(`training continues without the CUDA kernels of Verk, which is slower: ${why}\n`);
    return null;
  }
}

function load(path: string, index: number): Kernels | null {
  const driver = cudaDriver(index);
  if (driver.major < OLDEST_MAJOR) return null;
  const names = Object.keys(SIGNATURES) as KernelName[];
  const kernels = driver.load(readFileSync(path), names, sharedBytes);
  const packed = new Map(names.map((name) => [name, new Arguments(SIGNATURES[name])]));
  const products = openProducts();
  let exact: ExactProducts | null = null;
  return {
    launch(name, { grid, threads, shared = sharedBytes(name) }, values) {
      const of = packed.get(name) as Arguments;
      of.set(values); // The driver copies the arguments at the launch.
      driver.launch(kernels[name], grid, threads, { shared, extra: of.extra });
    },
    products,
    exact() {
      if (hasExactProducts(driver.major)) exact ??= openExactProducts();
      return exact;
    },
    multiprocessors: driver.multiprocessors,
    enter: driver.enter,
    wait: driver.wait,
    close() {
      exact?.close();
      products.close();
    },
  };
}
