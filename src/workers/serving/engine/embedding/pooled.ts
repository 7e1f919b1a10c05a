/**
 * Vectors that the library computes for whole prompts: embeddings of an encoder, which has no cache, and scores of a
 * model that ranks. All tokens of a prompt are in one call, so a call holds a whole context; short prompts share it.
 */
import { toArrayBuffer } from "bun:ffi";
import { POOLINGS, type Pooling } from "../../../../lib/gguf/pooling.ts";
import { must, type Ptr } from "../../../../native/ffi.ts";
import { openContext } from "../../../../native/llama/load.ts";
import { Batch } from "../batch.ts";
import { normalised, type Reader, type Work } from "./embedder.ts";
import type { ReaderOptions } from "./open.ts";

const LEAST_TOKENS = 512; // of a call: fewer would leave short prompts alone in it
const MOST_PROMPTS = 64;

export class PooledReader implements Reader {
  readonly #options: ReaderOptions;
  readonly #pooling: Pooling;
  readonly #size: number;
  readonly #batch: Batch;
  #context: Ptr | null = null;

  constructor(options: ReaderOptions, pooling: Pooling) {
    const { llama, model, contextLength } = options;
    this.#options = options;
    this.#pooling = pooling;
    this.#size = pooling === "rank" ? llama.llama_model_n_cls_out(model) : llama.llama_model_n_embd_out(model);
    this.#batch = new Batch(Math.max(LEAST_TOKENS, contextLength));
  }

  open(): Ptr {
    const { llama, model, threads } = this.#options;
    const { capacity } = this.#batch;
    this.#context ??= openContext(llama, model, {
      contextTokens: capacity,
      batchTokens: capacity,
      microBatchTokens: capacity,
      sequences: MOST_PROMPTS,
      threads,
      unified: true,
      embeddings: true,
      pooling: POOLINGS.indexOf(this.#pooling),
    });
    return this.#context;
  }

  read({ prompts, vectors }: Work) {
    const { llama, pace, pulse } = this.#options;
    const context = this.open();
    const memory = llama.llama_get_memory(context) as Ptr | null;
    if (memory !== null) llama.llama_memory_clear(memory, false);
    const count = this.#fill(prompts, vectors.length);
    const tokens = this.#batch.length;
    pulse.begin(pace.expectedMs(tokens));
    const before = performance.now();
    const code = this.#batch.decode(llama, context);
    if (code === 0) for (let i = 0; i < count; i++) vectors.push(this.#result(context, i)); // waits for a GPU
    pulse.end(code === 0);
    if (code !== 0) throw new Error(`llama_decode returned ${code} for an embedding`);
    pace.decoded({ tokens, prompts: tokens, ms: performance.now() - before });
  }

  forget() {}

  free() {
    if (this.#context !== null) this.#options.llama.llama_free(this.#context);
    this.#context = null;
  }

  /** Returns how many prompts are in the call. */
  #fill(prompts: readonly Int32Array[], first: number): number {
    this.#batch.clear();
    let count = 0;
    for (; count < MOST_PROMPTS; count++) {
      const prompt = prompts[first + count];
      if (!prompt || this.#batch.length + prompt.length > this.#batch.capacity) break;
      for (let i = 0; i < prompt.length; i++) this.#batch.add(prompt[i]!, i, count, true);
    }
    return count;
  }

  #result(context: Ptr, sequence: number): Float32Array {
    const at = must(this.#options.llama.llama_get_embeddings_seq(context, sequence), "llama_get_embeddings_seq");
    const vector = new Float32Array(toArrayBuffer(at, 0, this.#size * 4)); // memory of the library
    return this.#pooling === "rank" ? vector.slice() : normalised(vector);
  }
}
