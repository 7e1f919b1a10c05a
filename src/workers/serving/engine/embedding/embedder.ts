/**
 * Embeddings, and scores of pairs: one job after the other, in the order they came. The context is opened on first use.
 * A step makes one call of the library, so that running streams continue in between.
 */
import { errorText } from "../../../../lib/error_text.ts";
import type { Ptr } from "../../../../native/ffi.ts";
import type { Adapter, Adapters } from "../adapters.ts";

/** A job of one request. `vectors` are the results of the first prompts. */
export type Work = { readonly prompts: readonly Int32Array[]; readonly vectors: Float32Array[] };

/** Computes vectors of prompts: from states (states.ts), or by the library (pooled.ts). */
export type Reader = {
  /** Opens the context if needed. */
  open: () => Ptr;
  /** Makes one call for the prompts without a vector. Adds the vectors that are complete. */
  read: (work: Work) => void;
  /** Forgets a prompt that was read in part. */
  forget: () => void;
  free: () => void;
};

type Job = Work & { id: number; adapter: Adapter };
export type Embedded = { id: number; vectors: Float32Array[] };

export class Embedder {
  readonly #reader: Reader;
  readonly #adapters: Adapters;
  readonly #jobs: Job[] = [];
  /** The job whose adapter is applied to the context. */
  #dressed: Job | null = null;

  constructor(reader: Reader, adapters: Adapters) {
    this.#reader = reader;
    this.#adapters = adapters;
  }

  open() {
    this.#reader.open();
  }

  get idle() {
    return this.#jobs.length === 0;
  }

  submit(id: number, prompts: readonly Int32Array[], adapterName: string | null) {
    this.#jobs.push({ id, prompts, vectors: [], adapter: this.#adapters.use(adapterName) });
  }

  cancel(id: number) {
    const at = this.#jobs.findIndex((job) => job.id === id);
    if (at === 0) this.#reader.forget();
    for (const job of at >= 0 ? this.#jobs.splice(at, 1) : []) this.#over(job);
  }

  /** Makes one call for the oldest job. Returns the job when it is complete or has failed. */
  step(): Embedded | { id: number; error: string } | null {
    const [job] = this.#jobs;
    if (!job) return null;
    try {
      this.#dress(job);
      if (job.vectors.length < job.prompts.length) this.#reader.read(job);
      if (job.vectors.length < job.prompts.length) return null;
    } catch (error) {
      this.cancel(job.id);
      return { id: job.id, error: errorText(error) };
    }
    this.#jobs.shift();
    this.#over(job);
    return { id: job.id, vectors: job.vectors };
  }

  #dress(job: Job) {
    if (this.#dressed === job) return;
    this.#adapters.set(this.#reader.open(), job.adapter);
    this.#dressed = job;
  }

  /** Removes the job's adapter from the context: the adapter may be freed now. */
  #over(job: Job) {
    if (this.#dressed === job) {
      const none = this.#adapters.use(null);
      this.#adapters.set(this.#reader.open(), none);
      this.#adapters.release(none);
      this.#dressed = null;
    }
    this.#adapters.release(job.adapter);
  }

  free() {
    this.#reader.free();
  }
}

/** Scales to length 1. */
export function normalised(vector: Float32Array | Float64Array): Float32Array {
  let square = 0;
  for (const value of vector) square += value * value;
  const length = Math.sqrt(square) || 1;
  return Float32Array.from(vector, (value) => value / length);
}
