const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

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

/** The API's time: UTC, ISO 8601, milliseconds. */
export const isoTime = (epochMs: number): string => new Date(epochMs).toISOString();
