import { setTimeout } from "node:timers/promises";
import { ApiError } from "../client.ts";

const WAITS_MS = [250, 500, 1000, 2000, 4000, 8000];
const TEMPORARY = [0, 429, 502, 503, 504];

/** Retries an idempotent request after a broken connection, a restart or an overload of the server. */
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
      if (waitMs === undefined || !(error instanceof ApiError) || !TEMPORARY.includes(error.status)) throw error;
      await setTimeout(waitMs, undefined, { signal }); // without the signal, the timer would keep the process alive
    }
  }
}
