/** Binds the C library for calls that bun:ffi cannot make (src/native/shim/shim.c). */
import { dlopen, FFIType, type Pointer, ptr } from "bun:ffi";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { compiled } from "../bundle/embedded.ts";
import { ensureGroup } from "../bundle/extract.ts";

const NAME = "verk-shim.so";
/** Sizes, in 64-bit words, of the buffers for structs that the shim returns. The structs are smaller. */
export const DEFAULTS_WORDS = 64;
export const GRAPH_WORDS = 32;

const P = "ptr";
const SYMBOLS = {
  verk_defaults: { args: [P, P], returns: "void" },
  verk_load_model: { args: [P, P, P], returns: P },
  verk_open_context: { args: [P, P, P], returns: P },
  verk_decode: { args: [P, P, "i32", P, P, P, P, P], returns: "i32" },
  verk_decode_rows: { args: [P, P, "i32", P, P, P, P, P], returns: "i32" },
  verk_ggml_init: { args: [P, FFIType.u64_fast, "bool"], returns: P },
  verk_graph_view: { args: [P, P, P, "i32", "i32"], returns: "void" },
  verk_forget_error: { args: [], returns: "void" },
  verk_first_error: { args: [], returns: P },
  verk_read: { args: ["i32", P, FFIType.u64_fast, FFIType.u64_fast, "i32"], returns: "i32" },
  verk_seal_block: { args: [P, P, P, P, P, FFIType.u64_fast, P], returns: "void" },
  verk_open_block: { args: [P, P, P, P, FFIType.u64_fast, P], returns: "i32" },
  verk_read_block: { args: [P, P, P, P, P, FFIType.u64_fast], returns: FFIType.i64_fast },
  verk_write_block: { args: [P, P, P, P, P, P, P, FFIType.u64_fast], returns: "i32" },
  verk_open_lanes: { args: ["i32", P, P, P, P, "i32"], returns: P },
  verk_lanes_read: { args: [P, "i32", P], returns: "void" },
  verk_lanes_write: { args: [P, "i32", P, FFIType.u64_fast, P, P], returns: "void" },
  verk_lanes_result: { args: [P, "i32", "f64"], returns: FFIType.i64_fast },
  verk_close_lanes: { args: [P], returns: "void" },
  verk_limit_connections: { args: ["i32"], returns: "i32" },
  verk_refused_connections: { args: [], returns: FFIType.u64_fast },
} as const;

/** Path of the library, which is extracted if needed. An uncompiled run uses the file of the last build in .stage. */
function shimPath(dataDir: string): string {
  if (compiled) return join(ensureGroup("shim", dataDir), NAME);
  const path = resolve(import.meta.dir, "../../../.stage/shim", NAME);
  if (!existsSync(path)) throw new UsageError(`${NAME} has not been built; run: bun scripts/bundle/shim.ts`);
  return path;
}

/** Opens the library once per thread, because wrappers of bun:ffi belong to a thread. The library is per process. */
export function openShim(dataDir: string) {
  const path = shimPath(dataDir);
  return { ...dlopen(path, SYMBOLS).symbols, verk_log: addressIn(path)("verk_log") };
}
export type Shim = ReturnType<typeof openShim>;

/**
 * Refuses connections from other machines whose descriptor would be `most` or higher, for the whole process. Returns the
 * count of refused ones, or undefined if this Bun cannot be limited.
 */
export function limitConnections(dataDir: string, most: number): (() => number) | undefined {
  const { verk_limit_connections, verk_refused_connections } = openShim(dataDir);
  if (verk_limit_connections(most) === 0) return undefined;
  return () => Number(verk_refused_connections());
}

const RTLD_NOW = 2;

/** Looks up functions in a library, which stays loaded. */
function addressIn(path: string): (name: string) => Pointer {
  const libc = dlopen("libc.so.6", {
    dlopen: { args: [P, "i32"], returns: P },
    dlsym: { args: [P, P], returns: P },
  }).symbols;
  const file = Buffer.from(`${path}\0`);
  const handle = libc.dlopen(ptr(file), RTLD_NOW);
  if (!handle) throw new Error(`${path} cannot be loaded`);
  return (name) => {
    const bytes = Buffer.from(`${name}\0`);
    const address = libc.dlsym(handle, ptr(bytes)) as Pointer | null;
    if (!address) throw new Error(`${path} has no ${name}`);
    return address;
  };
}

type Memory = NodeJS.TypedArray | Pointer | null;

/** Calls of libllama with a struct by value. `into` has DEFAULTS_WORDS; llama/params.ts makes `params`. */
export function llamaCalls(shim: Shim, library: string) {
  const at = addressIn(library);
  const [model, context] = [at("llama_model_default_params"), at("llama_context_default_params")];
  const [load, open, decode] = [at("llama_model_load_from_file"), at("llama_init_from_model"), at("llama_decode")];
  const quantize = at("llama_model_quantize_default_params");
  return {
    llama_model_default_params: (into: NodeJS.TypedArray) => shim.verk_defaults(model, into),
    llama_context_default_params: (into: NodeJS.TypedArray) => shim.verk_defaults(context, into),
    llama_model_quantize_default_params: (into: NodeJS.TypedArray) => shim.verk_defaults(quantize, into),
    llama_model_load_from_file: (path: NodeJS.TypedArray, params: BigUint64Array) =>
      shim.verk_load_model(load, path, params),
    llama_init_from_model: (weights: Pointer, params: BigUint64Array) => shim.verk_open_context(open, weights, params),
    /** The fields of a llama_batch, without embeddings. */
    llama_decode: (
      into: Pointer,
      count: number,
      tokens: Memory,
      positions: Memory,
      counts: Memory,
      lists: Memory,
      wants: Memory,
    ) => shim.verk_decode(decode, into, count, tokens, positions, counts, lists, wants),
    /** The fields of a llama_batch with embeddings instead of tokens. */
    llama_decode_rows: (
      into: Pointer,
      count: number,
      embeddings: Memory,
      positions: Memory,
      counts: Memory,
      lists: Memory,
      wants: Memory,
    ) => shim.verk_decode_rows(decode, into, count, embeddings, positions, counts, lists, wants),
  };
}

/** Calls of libggml-base with a struct by value. */
export function ggmlCalls(shim: Shim, library: string) {
  const at = addressIn(library);
  const [init, view] = [at("ggml_init"), at("ggml_graph_view")];
  return {
    ggml_init: (bytes: number, noAlloc: boolean) => shim.verk_ggml_init(init, bytes, noAlloc),
    /** `into` has GRAPH_WORDS. */
    ggml_graph_view: (into: NodeJS.TypedArray, graph: Pointer, from: number, to: number) =>
      shim.verk_graph_view(view, into, graph, from, to),
  };
}
