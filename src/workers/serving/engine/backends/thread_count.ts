/**
 * How many threads the next batch should use. Threads wait for each other after every operation. Where another process
 * takes a core, one thread stands still and all others wait for it: fewer threads are faster then. Pure: the caller has
 * the clocks.
 */

const WINDOW_MS = 100; // wall time of batches that one decision is made on
const FIRST_RETRY_MS = 2_000; // one thread more is tried again after this time
const LAST_RETRY_MS = 60_000;

/** Below this share of their time on a core, threads stand still so often that one fewer is faster. */
const leastShare = (threads: number) => Math.min(0.85, 1 - 0.5 / threads);

/** A batch: its time on the wall, the CPU time of this process meanwhile, and when it ended. */
export type Measured = { wallMs: number; cpuMs: number; now: number };

export class ThreadCount {
  #threads: number;
  #wallMs = 0;
  #cpuMs = 0;
  #retryMs = FIRST_RETRY_MS;
  #changedAt = Number.NEGATIVE_INFINITY;
  #isTrial = false; // the last change added a thread

  constructor(readonly most: number) {
    this.#threads = most;
  }

  get threads(): number {
    return this.#threads;
  }

  /** Returns true if the number has changed. */
  decoded({ wallMs, cpuMs, now }: Measured): boolean {
    this.#wallMs += wallMs;
    this.#cpuMs += cpuMs;
    if (this.#wallMs < WINDOW_MS) return false;
    const share = this.#cpuMs / (this.#wallMs * this.#threads);
    this.#wallMs = 0;
    this.#cpuMs = 0;
    if (this.#threads > 1 && share < leastShare(this.#threads)) {
      // a thread that was added in vain is tried again later and later
      this.#retryMs = this.#isTrial ? Math.min(2 * this.#retryMs, LAST_RETRY_MS) : FIRST_RETRY_MS;
      return this.#change(-1, now);
    }
    if (this.#isTrial && now - this.#changedAt >= FIRST_RETRY_MS) this.#isTrial = false;
    return this.#threads < this.most && now - this.#changedAt >= this.#retryMs && this.#change(1, now);
  }

  #change(by: 1 | -1, now: number): true {
    this.#threads += by;
    this.#isTrial = by > 0;
    this.#changedAt = now;
    return true;
  }
}
