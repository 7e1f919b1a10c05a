/** Sums of past use. */

import { HOUR_MS } from "../../../lib/units.ts";
import { costOf } from "./charge.ts";
import type { UsageRow } from "./table.ts";

/** The use of one kind, provider and GPU type. `jobs` is 0 for deployments. */
export type Use = Omit<UsageRow, "workspaceId" | "hour">;

export type Sum = {
  jobs: number;
  jobMicros: number;
  jobGpuHours: number;
  deploymentMicros: number;
  deploymentGpuHours: number;
  energyJoules: number;
  /** The same hours by the price file. */
  shadowMicros: number;
};

/** Micro-dollars for an hour of one device by the price file. */
export type ListedRate = (provider: string, gpuType: string) => number;

export function sumOf(uses: readonly Use[], listed: ListedRate): Sum {
  const [jobs, deployments] = [uses.filter(({ kind }) => kind === "job"), uses.filter(({ kind }) => kind !== "job")];
  const shadows = uses.map(({ provider, gpuType, deviceMs }) => costOf(listed(provider, gpuType), deviceMs));
  return {
    jobs: total(jobs, "jobs"),
    jobMicros: total(jobs, "costMicros"),
    jobGpuHours: hoursOf(jobs),
    deploymentMicros: total(deployments, "costMicros"),
    deploymentGpuHours: hoursOf(deployments),
    energyJoules: total(uses, "energyJoules"),
    shadowMicros: shadows.reduce((sum, micros) => sum + micros, 0),
  };
}

const total = (uses: readonly Use[], key: "jobs" | "costMicros" | "deviceMs" | "energyJoules"): number =>
  uses.reduce((sum, use) => sum + use[key], 0);
const hoursOf = (uses: readonly Use[]) => Number((total(uses, "deviceMs") / HOUR_MS).toFixed(6)); // cuts repeating decimals

/** The most expensive first; equal costs by name. */
export function sumsBy(
  uses: readonly Use[],
  key: "provider" | "gpuType",
  listed: ListedRate,
): [name: string, sum: Sum][] {
  const groups = Map.groupBy(uses, (use) => use[key]);
  const sums = [...groups].map(([name, group]): [string, Sum] => [name, sumOf(group, listed)]);
  const micros = (sum: Sum) => sum.jobMicros + sum.deploymentMicros;
  return sums.sort(([a, x], [b, y]) => micros(y) - micros(x) || (a < b ? -1 : 1));
}
