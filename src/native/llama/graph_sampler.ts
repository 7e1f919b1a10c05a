/**
 * Our own samplers inside the graph of the library. The library calls them on the decoding thread: when it builds a
 * graph, which is rare because graphs are reused, and before each run. The layouts are those of the embedded version.
 * If they do not fit, there are no graph samplers, and callers sample without them.
 */
import { FFIType, JSCallback, type Pointer, ptr, read, toArrayBuffer } from "bun:ffi";
import { must, type Ptr } from "../ffi.ts";
import type { Llama } from "./symbols.ts";

export type GraphSampler = {
  /** Adds the computation of this sampler to a new graph. Called in the order of the slots. */
  apply: (context: Ptr, outputs: Outputs) => void;
  /** Called before the graph runs, if this sampler has a row in it. */
  setInput: () => void;
};

/** `logits` is one row. `answer` sets what the library copies to the host in addition to a drawn token. */
export type Outputs = { logits: Ptr; answer: (probs: Ptr | null) => void };

export type GraphSamplers = {
  /** Creates a sampler for a chain, which owns it from then on. */
  open: (sampler: GraphSampler) => Ptr;
  /** Ends a chain, so that only the token is copied to the host. The library would copy the whole vocabulary. */
  openQuiet: () => Ptr;
  /** Switches the calls of `setInput` on or off. One call for each sampler and run is expensive if nothing changed. */
  callSetInput: (on: boolean) => void;
  /** Call it after every sampler was freed. */
  close: () => void;
};

// biome-ignore format: struct llama_sampler_i in its order
const FUNCTIONS = ["name", "accept", "apply", "reset", "clone", "free", "backendInit", "backendAccept",
  "backendApply", "backendSetInput", "backendReset", "copyState"] as const;
const SET_INPUT = FUNCTIONS.indexOf("backendSetInput");
const DATA = { logits: 0, probs: 8, candidates: 24, bytes: 32 }; // struct llama_sampler_data
const P = FFIType.ptr;
const nothing = () => {};

/** Returns null if the library has another layout of samplers or tensors. */
export function openGraphSamplers(llama: Llama): GraphSamplers | null {
  if (!samplersFit(llama) || !tensorsFit(llama)) return null;
  const samplers = new Map<Ptr, GraphSampler>(); // By address. A freed sampler is replaced when its address is reused.
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

/** The library asks for one row after another, and uses the same struct for each answer. */
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

/** Compares which functions two samplers of the library implement. An added or moved function would change it. */
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

/** Offsets in struct ggml_tensor. */
const TENSOR = { ne: 16, viewOf: 232, viewOffset: 240 };
export const F32 = 0;
export const I32 = 26;

/** The matrix of a row, and the offset of the row in it. */
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
