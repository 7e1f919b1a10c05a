/** Seconds since 1970, and the value then. */
export type Point = readonly [x: number, value: number | null];

/** Stored and seen points as one curve, oldest first, each time once. Nothing before `since` is in it. */
export function pointsOf(
  stored: readonly { at: string; value: number | null }[],
  seen: readonly Point[],
  since = 0,
): { x: number[]; values: (number | null)[] } {
  const all = new Map<number, number | null>(stored.map(({ at, value }) => [Date.parse(at) / 1000, value]));
  for (const [x, value] of seen) all.set(x, value);
  const sorted = [...all].filter(([x]) => x >= since).sort(([a], [b]) => a - b);
  return { x: sorted.map(([x]) => x), values: sorted.map(([, value]) => value) };
}
