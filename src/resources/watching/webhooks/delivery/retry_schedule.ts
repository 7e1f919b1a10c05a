import { openRandom } from "../../../../lib/random.ts";
import { HOUR_MS, MINUTE_MS, SECOND_MS } from "../../../../lib/units.ts";

/**
 * The schedule of attempts. Pure: the time of an attempt follows from the end of the one before it, so a restart
 * computes the same. A delivery is due at its next attempt, or at its expiry when no attempt fits before it.
 */

/** Waits before attempts 2, 3, …; the last one repeats. */
export const WAITS_MS: readonly number[] = [
  5 * SECOND_MS,
  MINUTE_MS,
  10 * MINUTE_MS,
  HOUR_MS,
  6 * HOUR_MS,
  12 * HOUR_MS,
];
export const WINDOW_MS = 72 * HOUR_MS;

const UNJITTERED = 2; // attempts: the first retry comes exactly when the documentation says
const JITTER = 0.1;
/** A Retry-After must not cost the last attempt, which is then made this long before the expiry. */
const LAST_CALL_MS = MINUTE_MS;

/** No wait is longer: a Retry-After at most doubles the last one. */
export const LONGEST_WAIT_MS = 2 * 12 * HOUR_MS;

/** When a delivery is due. A time further ahead than any wait was computed with a wrong clock: it is due now. */
export const dueTimeMs = (dueAtMs: number, nowMs: number): number =>
  dueAtMs - nowMs > LONGEST_WAIT_MS ? nowMs : dueAtMs;

export const expiryOf = (createdAtMs: number) => createdAtMs + WINDOW_MS;

export type FailedAttempt = {
  /** Scheduled attempts so far, this one included. */
  attempts: number;
  endedAtMs: number;
  /** When the event was created. */
  createdAtMs: number;
  /** The Retry-After of the answer. It can only lengthen the wait, and at most double it. */
  retryAfterMs?: number | undefined;
  /** A number in [0, 1), from `jitterOf`. */
  random: number;
};

/** The time of the next attempt, or the expiry if no further attempt fits. */
export function nextDueMs({ attempts, endedAtMs, createdAtMs, retryAfterMs = 0, random }: FailedAttempt): number {
  const wait = WAITS_MS[Math.min(attempts, WAITS_MS.length) - 1];
  if (wait === undefined) throw new Error(`A failed attempt needs a count of at least 1, not ${attempts}`);
  const expiry = expiryOf(createdAtMs);
  const jitter = attempts < UNJITTERED ? 0 : JITTER * (2 * random - 1);
  const scheduled = endedAtMs + Math.round(wait * (1 + jitter));
  const requested = endedAtMs + Math.min(retryAfterMs, 2 * wait);
  const latest = Math.max(scheduled, expiry - LAST_CALL_MS);
  return Math.min(Math.max(scheduled, Math.min(requested, latest)), expiry);
}

/** Always the same for one attempt of a delivery; independent between deliveries. */
export const jitterOf = (deliveryId: string, attempts: number): number =>
  openRandom(Bun.hash.crc32(deliveryId), attempts)();

const FIXDATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** `Retry-After` in milliseconds from now: whole seconds, or a date in the form HTTP sends. Undefined: nothing usable. */
export function parseRetryAfter(header: string | null, nowMs: number): number | undefined {
  const text = header?.trim() ?? "";
  if (/^\d{1,9}$/.test(text)) return Number(text) * SECOND_MS;
  const date = FIXDATE.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - nowMs);
}
