import type { Clock } from "../../../platform/clock.ts";

const POLL_MS = 1_000; // a change without a signal is noticed this much later

/** Wakes readers of a job's log or state when there may be more to read. */
export class ChangeSignals {
  readonly #waiting = new Map<string, Set<() => void>>();

  /** Call it when the log has more lines or the row has changed. */
  notify(jobId: string) {
    for (const wake of this.#waiting.get(jobId) ?? []) wake();
  }

  /** Resolves at the next change, after a second at the latest, or when `signal` aborts. */
  async next(clock: Clock, jobId: string, signal: AbortSignal): Promise<void> {
    const waiting = this.#waiting.get(jobId) ?? new Set();
    this.#waiting.set(jobId, waiting);
    const changed = new AbortController();
    const wake = () => changed.abort();
    waiting.add(wake);
    try {
      await clock.sleep(POLL_MS, AbortSignal.any([signal, changed.signal]));
    } finally {
      waiting.delete(wake);
      if (waiting.size === 0) this.#waiting.delete(jobId);
    }
  }
}
