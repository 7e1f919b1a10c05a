/**
 * llama.cpp itself in its simplest form: one sequence, the whole prompt at once, then repeatedly the most likely token.
 */
import { ptr, toArrayBuffer } from "bun:ffi";
import { cstr, must, type Ptr } from "../../src/native/ffi.ts";
import { loadModel, openContext } from "../../src/native/llama/load.ts";
import { type Llama, openLlama } from "../../src/native/llama/symbols.ts";
import { tempDir } from "../harness.ts";

export type Reference = {
  tokens: number[];
  /** The model's logits of each step. */
  logits: Float32Array[];
  /** The smallest lead of a chosen token over the second: near 0, another order of additions may choose that one. */
  lead: number;
};
type Loaded = { llama: Llama; model: Ptr; vocabSize: number };

export function withModel<T>(path: string, use: (loaded: Loaded) => T): T {
  const llama = openLlama(tempDir(), { cuda: false });
  const model = loadModel(llama, { path, devices: [], repack: true });
  try {
    const vocab = must(llama.llama_model_get_vocab(model), "vocab");
    return use({ llama, model, vocabSize: llama.llama_vocab_n_tokens(vocab) });
  } finally {
    llama.llama_model_free(model);
  }
}

export function greedy(path: string, prompt: Int32Array, count: number): Reference {
  return withModel(path, (loaded) => {
    const context = openPlainContext(loaded, false);
    const result: Reference = { tokens: [], logits: [], lead: Number.POSITIVE_INFINITY };
    let input = prompt;
    let position = 0;
    while (result.tokens.length < count) {
      decode(loaded.llama, context, input, position);
      position += input.length;
      const at = must(loaded.llama.llama_get_logits_ith(context, input.length - 1), "logits");
      const logits = new Float32Array(toArrayBuffer(at, 0, loaded.vocabSize * 4)).slice();
      const [best, second] = Array.from(logits.keys()).sort((a, b) => logits[b]! - logits[a]!) as [number, number];
      result.tokens.push(best);
      result.logits.push(logits);
      result.lead = Math.min(result.lead, logits[best]! - logits[second]!);
      input = Int32Array.of(best);
    }
    loaded.llama.llama_free(context);
    return result;
  });
}

/** Log-probabilities of every token at every position of a text, with a LoRA file if `adapter` names one. */
export function logpsOf(path: string, tokens: Int32Array, adapter?: string): Float64Array[] {
  return withModel(path, (loaded) => {
    const context = openPlainContext(loaded, false);
    const { llama } = loaded;
    const lora =
      adapter === undefined ? null : must(llama.llama_adapter_lora_init(loaded.model, ptr(cstr(adapter))), adapter);
    if (lora) llama.llama_set_adapters_lora(context, ptr(BigUint64Array.of(BigInt(lora))), 1, ptr(Float32Array.of(1)));
    decode(loaded.llama, context, tokens, 0);
    const all = Array.from(tokens, (_, row) => {
      const at = must(loaded.llama.llama_get_logits_ith(context, row), "logits");
      const logits = Float64Array.from(new Float32Array(toArrayBuffer(at, 0, loaded.vocabSize * 4)));
      const most = logits.reduce((a, b) => Math.max(a, b));
      const total = Math.log(logits.reduce((sum, each) => sum + Math.exp(each - most), 0)) + most;
      return logits.map((each) => each - total);
    });
    loaded.llama.llama_free(context);
    return all;
  });
}

/** The mean of the last hidden states, scaled to length 1. */
export function meanState(path: string, prompt: Int32Array): Float32Array {
  return withModel(path, (loaded) => {
    const { llama, model } = loaded;
    const context = openPlainContext(loaded, true);
    decode(llama, context, prompt, 0);
    const size = llama.llama_model_n_embd_out(model);
    const sum = new Float64Array(size);
    for (let row = 0; row < prompt.length; row++) {
      const at = must(llama.llama_get_embeddings_ith(context, row), "embeddings");
      new Float32Array(toArrayBuffer(at, 0, size * 4)).forEach((value, i) => {
        sum[i]! += value;
      });
    }
    llama.llama_free(context);
    const length = Math.hypot(...sum);
    return Float32Array.from(sum, (value) => value / length);
  });
}

export function openPlainContext({ llama, model }: Loaded, embeddings: boolean): Ptr {
  const size = { contextTokens: 512, batchTokens: 512, microBatchTokens: 512 };
  return openContext(llama, model, { ...size, sequences: 1, threads: 1, unified: false, embeddings });
}

export function decode(llama: Llama, context: Ptr, tokens: Int32Array, position: number) {
  const n = tokens.length;
  const positions = Int32Array.from(tokens, (_, i) => position + i);
  const sequences = new Int32Array(n);
  const lists = new BigUint64Array(n).fill(BigInt(ptr(sequences)));
  const ones = new Int32Array(n).fill(1);
  const wants = new Int8Array(n).fill(1);
  const code = llama.llama_decode(context, n, tokens, positions, ones, lists, wants);
  if (code !== 0) throw new Error(`llama_decode returned ${code}`);
}
