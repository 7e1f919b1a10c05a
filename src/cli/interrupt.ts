export const INTERRUPTED = 130;

/**
 * Work that Ctrl-C ends in order: what it had under way sees the signal and cleans up after itself. A second Ctrl-C
 * does not wait for that.
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
