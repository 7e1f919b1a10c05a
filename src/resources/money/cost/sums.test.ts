import { expect, test } from "bun:test";
import { sumOf, sumsBy, type Use } from "./sums.ts";

const HOUR = 3_600_000;
const use = (more: Partial<Use>): Use => ({
  kind: "job",
  provider: "local",
  gpuType: "cpu",
  jobs: 1,
  deviceMs: 0,
  costMicros: 0,
  energyJoules: 0,
  ...more,
});
const listed = (_provider: string, gpuType: string) => (gpuType === "cpu" ? 10 : 1_000);

const USES = [
  use({ deviceMs: HOUR / 2, costMicros: 5, energyJoules: 3_600 }),
  use({ provider: "aws", gpuType: "H100", deviceMs: 2 * HOUR, costMicros: 100 }),
  use({ gpuType: "H100", costMicros: 7 }),
  use({ kind: "deployment", jobs: 0, deviceMs: HOUR, costMicros: 2_000 }),
];

test("past use is summed for jobs and deployments apart, with the price of all hours by the price file", () => {
  expect(sumOf(USES, listed)).toEqual({
    jobs: 3,
    jobMicros: 112,
    jobGpuHours: 2.5,
    deploymentMicros: 2_000,
    deploymentGpuHours: 1,
    energyJoules: 3_600,
    shadowMicros: 5 + 2_000 + 10,
  });
  expect(new Set(Object.values(sumOf([], listed)))).toEqual(new Set([0]));
});

test("past use is grouped with the most expensive first, deployments included", () => {
  const byProvider = sumsBy(USES, "provider", listed).map(([name, sum]) => [name, sum.jobs, sum.jobMicros]);
  expect(byProvider).toEqual([
    ["local", 2, 12],
    ["aws", 1, 100],
  ]);
  expect(sumsBy(USES, "gpuType", listed).map(([name]) => name)).toEqual(["cpu", "H100"]);
});
