export const INTERRUPTED = 130;

/**
 * Runs work that Ctrl-C aborts through `signal`, so that it can clean up. A second Ctrl-C exits at once.
 */
export async function interruptible(work: (signal: AbortSignal) => Promise<number>): Promise<number> {
  const stop = new AbortController();
  const onSignal = () => {
    if (stop.signal.aborted) process.exit(INTERRUPTED);
    stop.abort();
  };
  for (const name of ["SIGINT", "SIGTERM"]) process.on(name, onSignal);
  try {
    return await work(stop.signal);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    return INTERRUPTED;
  } finally {
    for (const name of ["SIGINT", "SIGTERM"]) process.off(name, onSignal);
  }
}
