/** Pure decisions about pushes: when a failed try comes again, and how a file is cut into parts. */
import { MINUTE_MS, SECOND_MS } from "../../../lib/units.ts";
import type { Upload } from "./table.ts";

const ATTEMPTS = 8; // in a row without progress
const FIRST_PAUSE_MS = 2 * SECOND_MS;
const LONGEST_PAUSE_MS = 5 * MINUTE_MS;

/** `attempts`: failures before this one. Undefined: the push fails. */
export function pauseAfter({ attempts, isPassing }: { attempts: number; isPassing: boolean }): number | undefined {
  if (!isPassing || attempts + 1 >= ATTEMPTS) return undefined;
  return Math.min(FIRST_PAUSE_MS * 2 ** attempts, LONGEST_PAUSE_MS);
}

/** A time further ahead than the longest pause was set by a clock that was wrong. */
export const isDue = (at: number | null, now: number): boolean =>
  at === null || at <= now || at - now > LONGEST_PAUSE_MS;

/** The addresses of parts are signed for at least this long. */
const ADDRESS_LIFE_MS = 45 * MINUTE_MS;

/** An upload that was begun for the same content goes on, while its addresses hold. */
export const canGoOn = (upload: Upload | null, oid: string, now: number): upload is Upload =>
  upload !== null && upload.oid === oid && now >= upload.at && now - upload.at < ADDRESS_LIFE_MS;

const SLOWEST_BYTES_PER_SECOND = 50_000;

/** The longest time of one request with so many bytes. */
export const timeoutFor = (bytes: number): number => MINUTE_MS + (bytes / SLOWEST_BYTES_PER_SECOND) * SECOND_MS;
