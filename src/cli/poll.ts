import { ApiError } from "./client.ts";

type Polling = {
  signal: AbortSignal;
  /** Pause between two probes. */
  everyMs: number;
  /** How long an unreachable server is retried, as it may be restarting. */
  outageMs: number;
  /** Called at each failed probe of an outage. */
  onOutage?: (() => void) | undefined;
};

/** Calls `probe` until `isOver` accepts its value. Returns undefined if `signal` aborts first. */
export async function pollUntil<T>(
  probe: () => Promise<T>,
  isOver: (value: T) => boolean,
  { signal, everyMs, outageMs, onOutage }: Polling,
): Promise<T | undefined> {
  for (let outage = 0; !signal.aborted; ) {
    try {
      const value = await probe();
      outage = 0;
      if (isOver(value)) return value;
    } catch (error) {
      if (signal.aborted) return undefined;
      outage += everyMs;
      if (!isOutage(error) || outage > outageMs) throw error;
      onOutage?.();
    }
    await Bun.sleep(everyMs);
  }
  return undefined;
}

/** True if the connection failed or the server answered with a 5xx status. */
export const isOutage = (error: unknown): boolean =>
  error instanceof ApiError && (error.status === 0 || error.status >= 500);
