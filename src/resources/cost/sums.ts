/** Sums of the costs of past jobs. */
import { HOUR_MS } from "../../lib/units.ts";

/** A job's use of hardware. `ms`: its running time, not multiplied by its devices. */
export type Use = { provider: string; gpuType: string; gpuCount: number; ms: number; costMicros: number };
export type Sum = { jobs: number; costMicros: number; gpuHours: number };

export function sumOf(uses: readonly Use[]): Sum {
  const gpuMs = uses.reduce((total, { ms, gpuCount }) => total + ms * gpuCount, 0);
  return {
    jobs: uses.length,
    costMicros: uses.reduce((total, { costMicros }) => total + costMicros, 0),
    gpuHours: Number((gpuMs / HOUR_MS).toFixed(6)), // cuts repeating decimals
  };
}

/** The most expensive first; equal costs by name. */
export function sumsBy(uses: readonly Use[], key: "provider" | "gpuType"): [name: string, sum: Sum][] {
  const groups = Map.groupBy(uses, (use) => use[key]);
  const sums = [...groups].map(([name, group]): [string, Sum] => [name, sumOf(group)]);
  return sums.sort(([a, x], [b, y]) => y.costMicros - x.costMicros || (a < b ? -1 : 1));
}
