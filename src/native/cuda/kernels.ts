/** The trainer's own kernels for NVIDIA GPUs. They are optional: a build may lack them, or a GPU may be too old. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { OutOfMemory } from "../ggml/out_of_memory.ts";
import { Arguments, cudaDriver, type Grid } from "./driver.ts";
import { openProducts, type Products } from "./kernel_products.ts";

export const KERNELS_FILE = "verk-kernels.fatbin";
const OLDEST_MAJOR = 8; // the first with BF16 tensor cores

const SIGHT = "ppiiif";
const BACKWARD = "pipipppip"; // qkv, stride, gradient, stride, lse, delta, result, stride, parts
const HEADS = "iiiif";

/** Parameters of each kernel, in the order of kernels.cu: p is an address, i an integer, f a float. */
export const SIGNATURES = {
  embed: "pppi",
  add_norm: "ppppppiif",
  norm_back: "ppppppppiii",
  take_rows: "pppi",
  drop_rows: "pipppi",
  add_dropped: "ppppi",
  gate_up: "ppii",
  gate_up_back: "pppii",
  turn_heads: `pipippppp${HEADS}i`,
  turn_heads_back: `pipippppp${HEADS}i`,
  attention_64: `pipip${SIGHT}`,
  attention_128: `pipip${SIGHT}`,
  attention_back_queries_64: BACKWARD + SIGHT,
  attention_back_queries_128: BACKWARD + SIGHT,
  attention_back_keys_64: BACKWARD + SIGHT,
  attention_back_keys_128: BACKWARD + SIGHT,
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
} as const;

export type KernelName = keyof typeof SIGNATURES;
export type Launch = { grid: Grid; threads: number; shared?: number };

export type Kernels = {
  launch: (name: KernelName, how: Launch, values: readonly number[]) => void;
  readonly products: Products;
  /** Number of multiprocessors, on which blocks run in parallel. */
  readonly multiprocessors: number;
  /** Makes the device current for this thread again. */
  enter: () => void;
  /** Waits for all launched kernels. */
  wait: () => void;
  close: () => void;
};

/** Queries and keys that a block has in shared memory. */
export const ATTENTION = { keys: 64, queries: { 64: 128, 128: 64 }, backQueries: 64, threads: 128 } as const;
export type HeadLength = keyof typeof ATTENTION.queries;
export const isHeadLength = (length: number): length is HeadLength => length in ATTENTION.queries;

export function sharedBytes(name: KernelName): number {
  const length = name.endsWith("_128") ? 128 : 64;
  const row = length * 2;
  const queriesOfKeys = length === 128 ? 32 : 64;
  if (name.startsWith("attention_back_queries")) return row * (2 * 64 + 4 * 64);
  if (name.startsWith("attention_back_keys")) return row * (2 * 64 + 4 * queriesOfKeys) + 12 * queriesOfKeys * 4;
  if (/^attention_\d/.test(name)) return row * (ATTENTION.queries[length] + 4 * 64);
  return 0;
}

/** `dir` contains the libraries of this build. Returns null without kernels, or without a device for them. */
export function openKernels(dir: string, index: number): Kernels | null {
  const path = join(dir, KERNELS_FILE);
  if (!existsSync(path)) return null;
  try {
    return load(path, index);
  } catch (error) {
    if (error instanceof OutOfMemory) throw error;
    const why = error instanceof Error ? error.message : String(error);
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
  return {
    launch(name, { grid, threads, shared = sharedBytes(name) }, values) {
      const of = packed.get(name) as Arguments;
      of.set(values); // The driver copies the arguments at the launch.
      driver.launch(kernels[name], grid, threads, { shared, extra: of.extra });
    },
    products,
    multiprocessors: driver.multiprocessors,
    enter: driver.enter,
    wait: driver.wait,
    close: () => products.close(),
  };
}
