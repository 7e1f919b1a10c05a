import { openRandom } from "../../../lib/random.ts";

/**
 * When a delivery is attempted. Pure: an attempt's time follows from when the one before it ended, so a restart
 * computes the same. A delivery is due at one time: of its next attempt, or of its end when no attempt fits before it.
 */
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Waits before attempts 2, 3, …; the last one repeats. */
export const WAITS_MS: readonly number[] = [5 * SECOND, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, 12 * HOUR];
export const WINDOW_MS = 72 * HOUR;

const UNJITTERED = 2; // attempts: a person who watches a first failure sees the retry when the documents say
const JITTER = 0.1;
/** What a receiver asks for may not cost the last attempt: it is then made this long before the end. */
const LAST_CALL_MS = MINUTE;

export const expiryOf = (createdAtMs: number) => createdAtMs + WINDOW_MS;

export type Failed = {
  /** Scheduled attempts that were made, this one included. */
  attempts: number;
  endedAtMs: number;
  /** Of the event. */
  createdAtMs: number;
  /** What the receiver asked for; it can only lengthen the wait, and at most double it. */
  retryAfterMs?: number | undefined;
  /** In [0, 1): `jitterOf`. */
  random: number;
};

/** The next attempt, or the expiry: then there is none, and the delivery is exhausted at that time. */
export function nextDueMs({ attempts, endedAtMs, createdAtMs, retryAfterMs = 0, random }: Failed): number {
  const wait = WAITS_MS[Math.min(attempts, WAITS_MS.length) - 1];
  if (wait === undefined) throw new Error(`No attempt was made, so none has failed (${attempts})`);
  const expiry = expiryOf(createdAtMs);
  const jitter = attempts < UNJITTERED ? 0 : JITTER * (2 * random - 1);
  const scheduled = endedAtMs + Math.round(wait * (1 + jitter));
  const asked = endedAtMs + Math.min(retryAfterMs, 2 * wait);
  const latest = Math.max(scheduled, expiry - LAST_CALL_MS);
  return Math.min(Math.max(scheduled, Math.min(asked, latest)), expiry);
}

/** The same for a delivery's attempt whenever it is asked for; unrelated between deliveries. */
export const jitterOf = (deliveryId: string, attempts: number): number =>
  openRandom(Bun.hash.crc32(deliveryId), attempts)();

const FIXDATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** `Retry-After` in milliseconds from now: whole seconds, or a date in the form HTTP sends. Undefined: nothing usable. */
export function parseRetryAfter(header: string | null, nowMs: number): number | undefined {
  const text = header?.trim() ?? "";
  if (/^\d{1,9}$/.test(text)) return Number(text) * SECOND;
  const date = FIXDATE.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - nowMs);
}
