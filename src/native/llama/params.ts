/**
 * llama_model_params and llama_context_params as words, for the embedded version of the library. Every start compares
 * the defaults of the library with this layout and rejects a difference. A field in the wrong place would corrupt memory.
 */
import type { Pointer } from "bun:ffi";
import type { KvType } from "../../lib/gguf/memory.ts";
import { DEFAULTS_WORDS } from "../shim/shim.ts";

const VERSION = "0.5.0-dev";
const MINUS_ONE = -1082130432; // -1.0f

// biome-ignore format: a table should look like one
const MODEL_DEFAULTS = [
  0, 0,  0, 0,  -1, 1,  -1, 1,  0, null,  0, 0,  0, 0,  0, 0,  0, 0,  0x00010000,
];
// biome-ignore format: a table should look like one
const CONTEXT_DEFAULTS = [
  512, 2048, 512, 1, 0, 0, 1, 4, 4,  0, -1, -1, -1, -1,
  0, 0, MINUS_ONE, MINUS_ONE, MINUS_ONE, MINUS_ONE, 0, MINUS_ONE,
  0, 0,  0, 0,  1, 1,  0, 0,  0, 0,  0x01010100, null,  0, 0,  0, 0,  0, 0,
];

type Symbols = {
  llama_model_default_params: (into: NodeJS.TypedArray) => unknown;
  llama_context_default_params: (into: NodeJS.TypedArray) => unknown;
};

export function checkLayouts(llama: Symbols, version: string) {
  const model = new Int32Array(2 * DEFAULTS_WORDS);
  const context = new Int32Array(2 * DEFAULTS_WORDS);
  llama.llama_model_default_params(model);
  llama.llama_context_default_params(context);
  const fits = (got: Int32Array, want: (number | null)[]) => want.every((v, i) => v === null || got[i] === v);
  const unifiedOff = (context[33]! & 0xffff) === 0x0001; // swa_full, kv_unified; the rest of the word is padding
  if (version === VERSION && fits(model, MODEL_DEFAULTS) && fits(context, CONTEXT_DEFAULTS) && unifiedOff) return;
  throw new Error(`libllama ${version} is not the version ${VERSION} that this program was built for`);
}

export type ModelParams = {
  /** A null-terminated array of devices. Null means every device, which is only the CPU in a CPU build. */
  devices: Pointer | null;
  gpuLayers: number;
  /** Called only on the thread that loads. Returning false ends the load. */
  progress: Pointer | null;
  mmap: boolean;
  /** Rearrange the weights during the load for faster products on the CPU. */
  repack: boolean;
  /** Load the tokenizer and the metadata, but no weights. */
  vocabOnly?: boolean;
};

export function modelParams(llama: Symbols, params: ModelParams): BigUint64Array {
  const words = new BigUint64Array(DEFAULTS_WORDS);
  const ints = new Int32Array(words.buffer);
  const bytes = new Uint8Array(words.buffer);
  llama.llama_model_default_params(words);
  words[0] = BigInt(params.devices ?? 0);
  ints[4] = params.gpuLayers;
  ints[6] = params.mmap ? 1 : 0;
  words[6] = BigInt(params.progress ?? 0);
  bytes[72] = params.vocabOnly ? 1 : 0;
  bytes[74] = params.repack ? 1 : 0;
  return words;
}

export type ContextParams = {
  contextTokens: number;
  batchTokens: number;
  microBatchTokens: number;
  sequences: number;
  threads: number;
  unified: boolean;
  /** Also compute the last hidden state of every token, or one vector of each sequence by `pooling`. */
  embeddings: boolean;
  /** The number of a pooling type. Default: none. */
  pooling?: number;
  /** Numbers of keys and values. Default: f16. */
  kvType?: KvType;
};

const POOLING_NONE = 0;
const KV_NUMBERS = { f16: 1, q8_0: 8 } as const; // ggml's types

export function contextParams(llama: Symbols, params: ContextParams): BigUint64Array {
  const words = new BigUint64Array(DEFAULTS_WORDS);
  const ints = new Int32Array(words.buffer);
  const bytes = new Uint8Array(words.buffer);
  llama.llama_context_default_params(words);
  ints[0] = params.contextTokens;
  ints[1] = params.batchTokens;
  ints[2] = params.microBatchTokens;
  ints[3] = params.sequences;
  ints[7] = params.threads;
  ints[8] = params.threads;
  if (params.embeddings) ints[11] = params.pooling ?? POOLING_NONE;
  ints[26] = KV_NUMBERS[params.kvType ?? "f16"]; // keys
  ints[27] = ints[26]; // values
  bytes[128] = params.embeddings ? 1 : 0;
  bytes[133] = params.unified ? 1 : 0;
  return words;
}
