/** Time as a dependency. Everything that waits or stamps takes a Clock, so tests can run 72 hours in a second. */
export type Clock = {
  /** Epoch milliseconds. */
  now: () => number;
  /** Milliseconds since some moment: goes on evenly, whatever is done to the time of day. */
  steady: () => number;
  /** Resolves after `ms`, or at once when `signal` aborts. Never rejects. */
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
};

export const systemClock: Clock = {
  now: Date.now,
  steady: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const done = () => {
        clearTimeout(timer);
        if (!signal?.aborted) signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      signal?.addEventListener("abort", done, { once: true });
    }),
};
