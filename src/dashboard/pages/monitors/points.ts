import type { MonitorChange } from "../../../resources/monitors/schema.ts";

/** Seconds since 1970, and the value then. */
export type Point = readonly [x: number, value: number | null];

/** Stored and seen points as one curve, oldest first, each time once. */
export function pointsOf(
  changes: readonly Pick<MonitorChange, "created_at" | "value">[],
  seen: readonly Point[],
): { x: number[]; values: (number | null)[] } {
  const all = new Map<number, number | null>(
    changes.map(({ created_at, value }) => [Date.parse(created_at) / 1000, value]),
  );
  for (const [x, value] of seen) all.set(x, value);
  const sorted = [...all].sort(([a], [b]) => a - b);
  return { x: sorted.map(([x]) => x), values: sorted.map(([, value]) => value) };
}
