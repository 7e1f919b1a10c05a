/**
 * Samplers of our own inside the library's graph. The library calls them on the thread that decodes, when it builds a
 * graph (rarely: graphs are used again) and before it runs one. The layouts are of the one version that is embedded;
 * where they do not fit, there are no such samplers and whoever wants one does without.
 */
import { FFIType, JSCallback, type Pointer, ptr, read, toArrayBuffer } from "bun:ffi";
import { must, type Ptr } from "../ffi.ts";
import type { Llama } from "./symbols.ts";

export type GraphSampler = {
  /** A graph is built: adds what this sampler computes to it. Called in the order of the slots. */
  apply: (context: Ptr, outputs: Outputs) => void;
  /** The graph is about to run, and this sampler has a row in it. */
  setInput: () => void;
};

/** `logits`: one row of them. `answer` says what the library copies to the host, beside the token if one is drawn. */
export type Outputs = { logits: Ptr; answer: (probs: Ptr | null) => void };

export type GraphSamplers = {
  /** A sampler for a chain, which owns it from then on. */
  open: (sampler: GraphSampler) => Ptr;
  /** Ends a chain: nothing but the token is copied to the host, where the library would copy whole vocabularies. */
  openQuiet: () => Ptr;
  /** Whether `setInput` is called at all: one call for each sampler and run is much, where nothing has changed. */
  callSetInput: (on: boolean) => void;
  /** After every sampler is gone. */
  close: () => void;
};

// biome-ignore format: struct llama_sampler_i in its order
const FUNCTIONS = ["name", "accept", "apply", "reset", "clone", "free", "backendInit", "backendAccept",
  "backendApply", "backendSetInput", "backendReset", "copyState"] as const;
const SET_INPUT = FUNCTIONS.indexOf("backendSetInput");
const DATA = { logits: 0, probs: 8, candidates: 24, bytes: 32 }; // struct llama_sampler_data
const P = FFIType.ptr;
const nothing = () => {};

/** Null when the library lays out its samplers or tensors in another way. */
export function openGraphSamplers(llama: Llama): GraphSamplers | null {
  if (!samplersFit(llama) || !tensorsFit(llama)) return null;
  const samplers = new Map<Ptr, GraphSampler>(); // by address; one that is gone is replaced when its address is used again
  const outputs = new OutputsAt();
  // biome-ignore format: a table should look like one
  const callbacks: Partial<Record<(typeof FUNCTIONS)[number], JSCallback>> = {
    apply:           new JSCallback(nothing, { args: [P, P], returns: "void" }),
    backendInit:     new JSCallback(() => true, { args: [P, P, "u32"], returns: "bool" }),
    backendApply:    new JSCallback((at, context, _, to) => samplers.get(at)?.apply(context, outputs.of(to)), { args: [P, P, P, P], returns: "void" }),
    backendSetInput: new JSCallback((at) => samplers.get(at)?.setInput(), { args: [P], returns: "void" }),
    copyState:       new JSCallback(nothing, { args: [P, P], returns: "void" }),
  };
  const functions = BigUint64Array.from(FUNCTIONS, (name) => BigInt(callbacks[name]?.ptr ?? 0));
  const setInput = functions[SET_INPUT]!;
  const open = (sampler: GraphSampler) => {
    const at = must(llama.llama_sampler_init(ptr(functions), 0), "llama_sampler_init");
    samplers.set(at, sampler);
    return at;
  };
  const quiet: GraphSampler = { setInput: nothing, apply: (_, { answer }) => answer(null) };
  return {
    open,
    openQuiet: () => open(quiet),
    callSetInput: (on) => {
      functions[SET_INPUT] = on ? setInput : 0n;
    },
    close: () => {
      for (const callback of Object.values(callbacks)) callback.close();
    },
  };
}

/** The library asks for one row after the other and gives the same place for each answer. */
class OutputsAt implements Outputs {
  logits = 0 as Ptr;
  #at: Ptr | null = null;
  #words = new BigUint64Array(0);

  of(at: Ptr): Outputs {
    if (this.#at !== at) this.#words = new BigUint64Array(toArrayBuffer(at, 0, DATA.bytes));
    this.#at = at;
    this.logits = read.ptr(at, DATA.logits) as Ptr;
    return this;
  }

  answer = (probs: Ptr | null) => {
    this.#words[DATA.logits / 8] = 0n;
    this.#words[DATA.candidates / 8] = 0n;
    this.#words[DATA.probs / 8] = probs === null ? 0n : BigInt(probs);
  };
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
const TENSOR = { ne: 16, viewOf: 232, viewOffset: 240 };
export const F32 = 0;
export const I32 = 26;

/** The matrix that a row is of, and where it begins in it. */
export const wholeOf = (row: Ptr): Ptr => (read.ptr(row, TENSOR.viewOf) as Pointer) || row;
export const offsetOf = (row: Ptr): number => read.ptr(row, TENSOR.viewOffset);
export const sizeOf = (tensor: Ptr) => ({ width: read.ptr(tensor, TENSOR.ne), rows: read.ptr(tensor, TENSOR.ne + 8) });

function tensorsFit(llama: Llama): boolean {
  const context = must(llama.ggml_init(4096, true), "ggml_init");
  const whole = must(llama.ggml_new_tensor_2d(context, F32, 7, 5), "tensor");
  const row = must(llama.ggml_view_2d(context, whole, 7, 1, 28, 3 * 28), "view");
  const { width, rows } = sizeOf(whole);
  const seen = [wholeOf(row) === whole, wholeOf(whole) === whole, offsetOf(row), width, rows].join();
  llama.ggml_free(context);
  return seen === "true,true,84,7,5";
}
