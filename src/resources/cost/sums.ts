/** What past jobs have cost, summed up. */

/** A job's use of hardware. `ms`: how long it ran, on all its devices at once. */
export type Use = { provider: string; gpuType: string; gpuCount: number; ms: number; costMicros: number };
export type Sum = { jobs: number; costMicros: number; gpuHours: number };

const HOUR_MS = 3_600_000;

export function sumOf(uses: readonly Use[]): Sum {
  const gpuMs = uses.reduce((total, { ms, gpuCount }) => total + ms * gpuCount, 0);
  return {
    jobs: uses.length,
    costMicros: uses.reduce((total, { costMicros }) => total + costMicros, 0),
    gpuHours: Number((gpuMs / HOUR_MS).toFixed(6)), // milliseconds in hours have no end of digits
  };
}

/** The dearest first; what costs the same in the order of names. */
export function sumsBy(uses: readonly Use[], key: "provider" | "gpuType"): [name: string, sum: Sum][] {
  const groups = Map.groupBy(uses, (use) => use[key]);
  const sums = [...groups].map(([name, group]): [string, Sum] => [name, sumOf(group)]);
  return sums.sort(([a, x], [b, y]) => y.costMicros - x.costMicros || (a < b ? -1 : 1));
}
