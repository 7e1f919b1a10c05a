type Working = { stop: AbortController; done: Promise<void> };

/** Work of a loop whose rows are its queue. `bell` resolves when there may be more to start. */
type Queue = { bell: PromiseWithResolvers<void>; readonly running: ReadonlyMap<string, Working> };

/**
 * Works until nothing is due. `start` begins what is due and has room, and calls `fail` with a fault of the server. Such
 * a fault, or the end of `signal`, stops the work that is under way. `signal` must end with the server: what a closing
 * server refuses stays due, and would begin again without a pause.
 */
export async function untilIdle(state: Queue, signal: AbortSignal, start: (fail: (error: unknown) => void) => void) {
  const trouble: unknown[] = [];
  const ended = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  try {
    while (!signal.aborted && trouble.length === 0) {
      state.bell = Promise.withResolvers<void>();
      start((error) => void trouble.push(error));
      if (state.running.size === 0) break;
      await Promise.race([ended, state.bell.promise, ...[...state.running.values()].map(({ done }) => done)]);
    }
  } finally {
    const left = [...state.running.values()];
    for (const { stop } of left) stop.abort(new Error("the loop ends"));
    await Promise.all(left.map(({ done }) => done));
  }
  if (trouble.length > 0) throw trouble[0];
}
