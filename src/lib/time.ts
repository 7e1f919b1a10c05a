import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from "./units.ts";

const UNITS = { ms: 1, s: SECOND_MS, m: MINUTE_MS, h: HOUR_MS, d: DAY_MS } as const;

/** `250 ms`, `4.2 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`: two units at most, for people. */
export function formatDuration(ms: number): string {
  if (ms < 0) return `-${formatDuration(-ms)}`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${Number((ms / 1000).toFixed(1))} s`;
  const seconds = Math.round(ms / 1000);
  const pair = (big: number, bigName: string, small: number, smallName: string) => {
    const rest = Math.floor((seconds % big) / small);
    return `${Math.floor(seconds / big)} ${bigName}${rest > 0 ? ` ${rest} ${smallName}` : ""}`;
  };
  if (seconds < 3600) return pair(60, "min", 1, "s");
  return seconds < 86_400 ? pair(3600, "h", 60, "min") : pair(86_400, "d", 3600, "h");
}

/** `90s`, `1h30m`, `250ms`, `2 d` as milliseconds. Undefined when malformed. */
export function parseDuration(text: string): number | undefined {
  if (!/^\s*(\d+(\.\d+)?\s*(ms|s|m|h|d)\s*)+$/.test(text)) return undefined;
  let total = 0;
  for (const [, count, unit] of text.matchAll(/(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)/g))
    total += Number(count) * UNITS[unit as keyof typeof UNITS];
  return Math.round(total);
}

const SOON_MS = 30 * DAY_MS;

/** True in the last quarter of a life, and at most 30 days before its end. `expiresAt` null: it has no end. */
export const expiresSoon = (createdAt: number, expiresAt: number | null, nowMs: number): boolean =>
  expiresAt !== null && nowMs < expiresAt && expiresAt - nowMs <= Math.min(SOON_MS, (expiresAt - createdAt) / 4);

/** The API's time: UTC, ISO 8601, milliseconds. */
export function isoTime(epochMs: number): string {
  const day = Math.floor(epochMs / UNITS.d);
  const ms = epochMs - day * UNITS.d;
  return `${dateOf(day)}T${TWO[Math.floor(ms / UNITS.h)]}:${TWO[Math.floor(ms / UNITS.m) % 60]}:${TWO[Math.floor(ms / UNITS.s) % 60]}.${String(ms % 1000).padStart(3, "0")}Z`;
}

const TWO = Array.from({ length: 60 }, (_, n) => String(n).padStart(2, "0"));
const dates = new Map<number, string>(); // Date.toISOString takes 0.7 µs, and most times shown are of few days

function dateOf(day: number): string {
  let date = dates.get(day);
  if (date === undefined) {
    if (dates.size > 1000) dates.clear();
    date = new Date(day * UNITS.d).toISOString().slice(0, -14);
    dates.set(day, date);
  }
  return date;
}
