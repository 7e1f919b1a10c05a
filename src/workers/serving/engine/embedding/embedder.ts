/**
 * Embeddings: the mean of the last hidden states, of length 1. They have a context of their own, opened on first use.
 * It computes one part of one prompt at a time, so that running streams continue in between. The parts are small
 * because the library computes logits for every token of such a batch.
 */
import { toArrayBuffer } from "bun:ffi";
import { must, type Ptr } from "../../../../native/ffi.ts";
import { openContext } from "../../../../native/llama/load.ts";
import type { Llama } from "../../../../native/llama/symbols.ts";
import type { Adapter, Adapters } from "../adapters.ts";
import { Batch } from "../batch.ts";
import type { Pace } from "../pace.ts";
import type { Pulse } from "../thread/pulse.ts";

const PART = 64;

export type EmbedderOptions = {
  llama: Llama;
  model: Ptr;
  contextLength: number;
  threads: number;
  size: number;
  adapters: Adapters;
  pace: Pace;
  pulse: Pulse;
};

type Job = {
  id: number;
  prompts: readonly Int32Array[];
  vectors: Float32Array[];
  fed: number;
  sum: Float64Array;
  adapter: Adapter;
};

export class Embedder {
  readonly #options: EmbedderOptions;
  readonly #jobs: Job[] = [];
  readonly #batch = new Batch(PART);
  #context: Ptr | null = null;
  /** The job whose adapter is applied to the context. */
  #dressed: Job | null = null;

  constructor(options: EmbedderOptions) {
    this.#options = options;
  }

  get idle() {
    return this.#jobs.length === 0;
  }

  submit(id: number, prompts: readonly Int32Array[], adapterName: string | null) {
    const { size, adapters } = this.#options;
    const adapter = adapters.use(adapterName);
    this.#jobs.push({ id, prompts, vectors: [], fed: 0, sum: new Float64Array(size), adapter });
  }

  cancel(id: number) {
    const at = this.#jobs.findIndex((job) => job.id === id);
    for (const job of at >= 0 ? this.#jobs.splice(at, 1) : []) this.#over(job);
  }

  /** Drops the oldest job and returns its id. */
  drop(): number {
    const job = this.#jobs.shift();
    if (job) this.#over(job);
    return job?.id ?? -1;
  }

  /** Computes one part of the oldest job. Returns the job when it is complete. */
  step(): { id: number; vectors: Float32Array[] } | null {
    const job = this.#jobs[0];
    if (!job) return null;
    const prompt = job.prompts[job.vectors.length];
    if (prompt) this.#decodePart(job, prompt);
    if (job.vectors.length < job.prompts.length) return null;
    this.#jobs.shift();
    this.#over(job);
    return { id: job.id, vectors: job.vectors };
  }

  #dress(context: Ptr, job: Job) {
    if (this.#dressed === job) return;
    this.#options.adapters.set(context, job.adapter);
    this.#dressed = job;
  }

  /** Removes the job's adapter from the context: the adapter may be freed now. */
  #over(job: Job) {
    const { adapters } = this.#options;
    if (this.#dressed === job && this.#context !== null) {
      const none = adapters.use(null);
      adapters.set(this.#context, none);
      adapters.release(none);
      this.#dressed = null;
    }
    adapters.release(job.adapter);
  }

  #decodePart(job: Job, prompt: Int32Array) {
    const { llama, size, pace, pulse } = this.#options;
    this.#context ??= this.#open();
    this.#dress(this.#context, job);
    const memory = must(llama.llama_get_memory(this.#context), "llama_get_memory");
    if (job.fed === 0) llama.llama_memory_clear(memory, false);
    this.#batch.clear();
    const end = Math.min(prompt.length, job.fed + PART);
    for (let i = job.fed; i < end; i++) this.#batch.add(prompt[i]!, i, 0, true);
    pulse.begin(pace.expectedMs(this.#batch.length));
    const code = this.#batch.decode(llama, this.#context);
    pulse.end(code === 0);
    if (code !== 0) throw new Error(`llama_decode returned ${code} for an embedding`);
    for (let row = 0; row < end - job.fed; row++) {
      const at = must(llama.llama_get_embeddings_ith(this.#context, row), "llama_get_embeddings_ith");
      const state = new Float32Array(toArrayBuffer(at, 0, size * 4));
      for (let i = 0; i < size; i++) job.sum[i]! += state[i]!;
    }
    job.fed = end;
    if (end < prompt.length) return;
    job.vectors.push(normalised(job.sum));
    job.sum.fill(0);
    job.fed = 0;
  }

  #open(): Ptr {
    const { llama, model, contextLength, threads } = this.#options;
    return openContext(llama, model, {
      contextTokens: contextLength,
      batchTokens: PART,
      microBatchTokens: PART,
      sequences: 1,
      threads,
      unified: true,
      embeddings: true,
    });
  }

  free() {
    if (this.#context !== null) this.#options.llama.llama_free(this.#context);
    this.#context = null;
  }
}

/** Scales to length 1, so the sum serves as well as the mean. */
function normalised(sum: Float64Array): Float32Array {
  let square = 0;
  for (const value of sum) square += value * value;
  const length = Math.sqrt(square) || 1;
  return Float32Array.from(sum, (value) => value / length);
}
