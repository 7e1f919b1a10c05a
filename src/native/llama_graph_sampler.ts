/**
 * Samplers of our own inside the library's graph. The library calls them on the thread that decodes, when it builds a
 * graph (rarely: graphs are used again) and before it runs one. The layouts are of the one version that is embedded;
 * where they do not fit, there are no such samplers and whoever wants one does without.
 */
import { FFIType, JSCallback, type Pointer, ptr, read, toArrayBuffer } from "bun:ffi";
import { type Llama, must, type Ptr } from "./llama_symbols.ts";

export type GraphSampler = {
  /** A graph is about to be built: what the last one had is not valid any more. */
  reset: () => void;
  /** Adds what it computes to the graph of `context`. */
  apply: (context: Ptr, outputs: Outputs) => void;
  /** The graph is about to run, and this sampler has a row in it. */
  setInput: () => void;
};

/** `logits`: one row of them. `answer` says what the library copies to the host, beside the token if one is drawn. */
export type Outputs = { logits: Ptr; answer: (probs: Ptr | null) => void };

export type GraphSamplers = {
  /** A sampler for a chain, which owns it from then on. One for each number, which is above 0. */
  open: (number: number, sampler: GraphSampler) => Ptr;
  /** Ends a chain: nothing but the token is copied to the host, where the library would copy whole vocabularies. */
  openQuiet: () => Ptr;
  /** After every sampler is gone. */
  close: () => void;
};

// biome-ignore format: struct llama_sampler_i in its order
const FUNCTIONS = ["name", "accept", "apply", "reset", "clone", "free", "backendInit", "backendAccept",
  "backendApply", "backendSetInput", "backendReset", "copyState"] as const;
const AT_CONTEXT = 8; // struct llama_sampler: functions, context
const DATA = { logits: 0, probs: 1, candidates: 3, words: 4 }; // struct llama_sampler_data
const QUIET = 0;
const P = FFIType.ptr;
const nothing = () => {};

/** Null when the library lays out its samplers or tensors in another way. */
export function openGraphSamplers(llama: Llama): GraphSamplers | null {
  if (!samplersFit(llama) || !tensorsFit(llama)) return null;
  const quiet: GraphSampler = { reset: nothing, setInput: nothing, apply: (_, { answer }) => answer(null) };
  const samplers = new Map([[QUIET, quiet]]);
  const of = (at: Ptr) => samplers.get(Number(read.u64(at, AT_CONTEXT)));
  // biome-ignore format: a table should look like one
  const callbacks: Partial<Record<(typeof FUNCTIONS)[number], JSCallback>> = {
    apply:           new JSCallback(nothing, { args: [P, P], returns: "void" }),
    backendInit:     new JSCallback(() => true, { args: [P, P, "u32"], returns: "bool" }),
    backendApply:    new JSCallback((at, context, _, to) => of(at)?.apply(context, outputsAt(to)), { args: [P, P, P, P], returns: "void" }),
    backendSetInput: new JSCallback((at) => of(at)?.setInput(), { args: [P], returns: "void" }),
    backendReset:    new JSCallback((at) => of(at)?.reset(), { args: [P], returns: "void" }),
    copyState:       new JSCallback(nothing, { args: [P, P], returns: "void" }),
  };
  const functions = BigUint64Array.from(FUNCTIONS, (name) => BigInt(callbacks[name]?.ptr ?? 0));
  const init = (number: number) => must(llama.llama_sampler_init(ptr(functions), number), "llama_sampler_init");
  return {
    open: (number, sampler) => {
      samplers.set(number, sampler);
      return init(number);
    },
    openQuiet: () => init(QUIET),
    close: () => {
      for (const callback of Object.values(callbacks)) callback.close();
    },
  };
}

function outputsAt(at: Ptr): Outputs {
  const words = new BigUint64Array(toArrayBuffer(at, 0, DATA.words * 8));
  const answer = (probs: Ptr | null) => {
    words[DATA.logits] = 0n;
    words[DATA.candidates] = 0n;
    words[DATA.probs] = BigInt(probs ?? 0);
  };
  return { logits: Number(words[DATA.logits]) as Ptr, answer };
}

/** Which functions two of the library's own samplers have: a function more or in another place would show. */
function samplersFit(llama: Llama): boolean {
  const has = (sampler: Ptr) => {
    const functions = read.ptr(sampler, 0) as Pointer;
    const shape = FUNCTIONS.map((_, i) => (read.ptr(functions, 8 * i) ? "1" : "0")).join("");
    llama.llama_sampler_free(sampler);
    return shape;
  };
  const dist = must(llama.llama_sampler_init_dist(1), "dist");
  const greedy = must(llama.llama_sampler_init_greedy(), "greedy");
  return has(dist) === "111111101111" && has(greedy) === "101111101001";
}

/** struct ggml_tensor, as far as it is read here. */
const TENSOR = { type: 0, ne: 16, nb: 48, viewOf: 232, viewOffset: 240 };
export const F32 = 0;
export const I32 = 26;

/** The matrix that a row is of, its own shape, and which row of it this is. */
export function wholeOf(row: Ptr): { whole: Ptr; row: number; width: number; rows: number } {
  const viewed = read.ptr(row, TENSOR.viewOf) as Pointer;
  const whole = viewed ? viewed : row;
  const size = (dimension: number) => Number(read.i64(whole, TENSOR.ne + 8 * dimension));
  const at = viewed ? Number(read.u64(row, TENSOR.viewOffset)) / Number(read.u64(whole, TENSOR.nb + 8)) : 0;
  return { whole, row: at, width: size(0), rows: size(1) };
}

function tensorsFit(llama: Llama): boolean {
  const context = must(llama.ggml_init(0, 0, 0, 0, 0, 0, 4096, null, 1), "ggml_init");
  const whole = must(llama.ggml_new_tensor_2d(context, F32, 7, 5), "tensor");
  const found = wholeOf(must(llama.ggml_view_2d(context, whole, 7, 1, 28, 3 * 28), "view"));
  llama.ggml_free(context);
  return found.whole === whole && found.row === 3 && found.width === 7 && found.rows === 5;
}
