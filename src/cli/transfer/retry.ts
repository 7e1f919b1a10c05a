import { setTimeout } from "node:timers/promises";
import { ApiError } from "../client.ts";

const WAITS_MS = [250, 500, 1000, 2000, 4000, 8000];
const PASSING = [0, 429, 502, 503, 504];

/** Again after a cut connection, a restart or an overload, for what may be sent twice. */
export async function withRetries<T>(
  signal: AbortSignal,
  send: () => Promise<T>,
  waitsMs: readonly number[] = WAITS_MS,
): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await send();
    } catch (error) {
      const waitMs = waitsMs[tries];
      if (waitMs === undefined || !(error instanceof ApiError) || !PASSING.includes(error.status)) throw error;
      await setTimeout(waitMs, undefined, { signal }); // a timer that is left would keep the process
    }
  }
}
