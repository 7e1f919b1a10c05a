import { expect, test } from "bun:test";
import { addCounts, bucketOf, type Counts, percentilesOf } from "./buckets.ts";

const countsOf = (times: readonly number[]): Counts => {
  const counts: Counts = new Map();
  for (const ms of times) addCounts(counts, { [bucketOf(ms)]: 1 });
  return counts;
};

test("percentiles are within 2.2 % of the exact ones, from a millisecond to an hour", () => {
  expect(percentilesOf(new Map())).toBeNull();
  const times = Array.from({ length: 1_000 }, (_, i) => 1.5 * 1.015 ** i);
  const percentiles = percentilesOf(countsOf(times));
  for (const [share, value] of [
    [0.5, percentiles?.p50],
    [0.95, percentiles?.p95],
    [0.99, percentiles?.p99],
  ] as const) {
    const exact = times[Math.ceil(share * times.length) - 1] ?? 0;
    expect(Math.abs((value ?? 0) / exact - 1)).toBeLessThan(0.022);
  }
  expect(percentilesOf(countsOf([0, 0.2, 1]))).toEqual({ p50: 1, p95: 1, p99: 1 });
});

test("counts of several spans add up to the percentiles of all", () => {
  const [first, second] = [countsOf([10, 10, 10]), countsOf([1_000])];
  const all: Counts = new Map();
  for (const counts of [first, second]) addCounts(all, Object.fromEntries(counts));
  const percentiles = percentilesOf(all);
  expect(percentiles?.p50).toBeCloseTo(10, 0);
  expect(percentiles?.p99).toBeGreaterThan(975);
});
