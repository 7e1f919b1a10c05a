/**
 * Embeddings of a decoder, from the last hidden states of its tokens. The parts of a prompt are small because the
 * library computes logits for every token of such a batch.
 */
import { toArrayBuffer } from "bun:ffi";
import type { Pooling } from "../../../../lib/gguf/pooling.ts";
import { must, type Ptr } from "../../../../native/ffi.ts";
import { openContext } from "../../../../native/llama/load.ts";
import { Batch } from "../batch.ts";
import { normalised, type Reader, type Work } from "./embedder.ts";
import type { ReaderOptions } from "./open.ts";

const PART = 64;

export class StateReader implements Reader {
  readonly #options: ReaderOptions;
  readonly #size: number;
  readonly #pooling: Pooling;
  readonly #batch = new Batch(PART);
  readonly #sum: Float64Array;
  #fed = 0;
  #context: Ptr | null = null;

  constructor(options: ReaderOptions, pooling: Pooling) {
    this.#options = options;
    this.#pooling = pooling;
    this.#size = options.llama.llama_model_n_embd_out(options.model);
    this.#sum = new Float64Array(this.#size);
  }

  open(): Ptr {
    const { llama, model, contextLength, threads } = this.#options;
    this.#context ??= openContext(llama, model, {
      contextTokens: contextLength,
      batchTokens: PART,
      microBatchTokens: PART,
      sequences: 1,
      threads,
      unified: true,
      embeddings: true,
    });
    return this.#context;
  }

  read({ prompts, vectors }: Work) {
    const { llama, pace, pulse } = this.#options;
    const prompt = prompts[vectors.length]!;
    const context = this.open();
    const memory = must(llama.llama_get_memory(context), "llama_get_memory");
    if (this.#fed === 0) llama.llama_memory_clear(memory, false);
    this.#batch.clear();
    const end = Math.min(prompt.length, this.#fed + PART);
    for (let i = this.#fed; i < end; i++) this.#batch.add(prompt[i]!, i, 0, true);
    pulse.begin(pace.expectedMs(this.#batch.length));
    const code = this.#batch.decode(llama, context);
    pulse.end(code === 0);
    if (code !== 0) throw new Error(`llama_decode returned ${code} for an embedding`);
    for (let row = 0; row < end - this.#fed; row++)
      if (this.#counts(this.#fed + row, prompt.length)) this.#add(context, row);
    this.#fed = end;
    if (end < prompt.length) return;
    vectors.push(normalised(this.#sum)); // a sum, scaled to length 1, is the same as a mean
    this.forget();
  }

  forget() {
    this.#fed = 0;
    this.#sum.fill(0);
  }

  free() {
    if (this.#context !== null) this.#options.llama.llama_free(this.#context);
    this.#context = null;
  }

  #counts(position: number, length: number): boolean {
    if (this.#pooling === "cls") return position === 0;
    return this.#pooling !== "last" || position === length - 1;
  }

  #add(context: Ptr, row: number) {
    const at = must(this.#options.llama.llama_get_embeddings_ith(context, row), "llama_get_embeddings_ith");
    const state = new Float32Array(toArrayBuffer(at, 0, this.#size * 4));
    for (let i = 0; i < this.#size; i++) this.#sum[i]! += state[i]!;
  }
}
