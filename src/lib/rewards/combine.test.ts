import { describe, expect, test } from "bun:test";
import { addScores, combine, type Judged, percentile, type Scored, summarize } from "./combine.ts";
import type { Outcome } from "./contract.ts";

const value = (number: number): Outcome => ({ value: number, fault: null, ms: 1 });
const fault = (kind: "none" | "exception" | "timeout", message = kind as string): Outcome => ({
  value: null,
  fault: { kind, message, line: null },
  ms: 2,
});
const one = (...outcomes: [weight: number, Outcome][]) =>
  combine(
    outcomes.map(([weight, outcome], n): Judged => ({ name: `f${n}`, weight, outcomes: [outcome] })),
    1,
  )[0]!;

describe("a sample's reward", () => {
  test("is the weighted sum, with the value of each function beside it", () => {
    expect(one([1, value(0.5)], [-2, value(0.25)])).toEqual({
      index: 0,
      reward: 0,
      sub_rewards: { f0: 0.5, f1: 0.25 },
      weights: { f0: 1, f1: -2 },
      latency_ms: 2,
      error: null,
    });
  });
  test("leaves out a function that returned None", () => {
    expect(one([1, value(2)], [5, fault("none")])).toMatchObject({
      reward: 2,
      sub_rewards: { f0: 2, f1: null },
      error: null,
    });
  });
  test("is null when every function returned None, without an error", () => {
    expect(one([1, fault("none")])).toMatchObject({ reward: null, error: null });
  });
  test("is null when any function failed; the first failure is reported", () => {
    const scored = one([1, value(2)], [1, fault("none")], [1, fault("timeout")], [1, fault("exception")]);
    expect(scored).toMatchObject({ reward: null, error: { kind: "timeout", reward: "f2" } });
    expect(scored.sub_rewards).toEqual({ f0: 2, f1: null, f2: null, f3: null });
  });
  test("is null if the sum is not a number, and if an answer is missing", () => {
    expect(one([2, value(1e308)])).toMatchObject({ reward: null, error: { kind: "not_finite" } });
    expect(combine([{ name: "f", weight: 1, outcomes: [] }], 1)[0]).toMatchObject({
      reward: null,
      error: { kind: "crashed" },
    });
  });
});

describe("a summary", () => {
  test("counts all samples, and describes the samples that have a reward", () => {
    const outcomes = [value(1), value(3), fault("none"), fault("timeout"), fault("timeout")];
    expect(summarize(combine([{ name: "f", weight: 1, outcomes }], 5))).toEqual({
      count: 5,
      scored: 2,
      mean: 2,
      std: 1,
      min: 1,
      max: 3,
      faults: { none: 1, timeout: 2 },
      latency_ms_p50: 2,
      latency_ms_p95: 2,
    });
  });
  test("of many equal rewards is exact, and the largest possible rewards still have a mean", () => {
    const same = Array.from({ length: 10_000 }, () => value(0.1));
    expect(summarize(combine([{ name: "f", weight: 1, outcomes: same }], 10_000))).toMatchObject({ mean: 0.1, std: 0 });
    const largest = [value(1.7e308), value(1.7e308)];
    expect(summarize(combine([{ name: "f", weight: 1, outcomes: largest }], 2))).toMatchObject({ mean: 1.7e308 });
  });
  test("of no samples has no figures", () => {
    expect(summarize([])).toMatchObject({ count: 0, mean: null, std: null, min: null, latency_ms_p50: null });
  });
  test("a percentile is a value that occurred", () => {
    const hundred = Array.from({ length: 100 }, (_, i) => i + 1);
    expect([0, 0.5, 0.95, 1].map((share) => percentile(hundred, share))).toEqual([1, 50, 95, 100]);
    expect(percentile([7], 0.95)).toBe(7);
  });
});

describe("addScores", () => {
  const one = (reward: number | null, name: string, error: string | null = null): Scored => ({
    index: 0,
    reward,
    sub_rewards: { [name]: reward },
    weights: { [name]: 1 },
    latency_ms: 1,
    error: error === null ? null : { kind: "exception", message: error, line: null, reward: name },
  });
  test("sums the rewards and keeps the values of both", () => {
    expect(addScores([one(1, "a")], [one(2, "b")])).toEqual([
      { index: 0, reward: 3, sub_rewards: { a: 1, b: 2 }, weights: { a: 1, b: 1 }, latency_ms: 2, error: null },
    ]);
    expect(addScores([one(1, "a")], [one(2, "a")])[0]?.sub_rewards).toEqual({ a: 1, "a#2": 2 });
  });
  test("a reward that does not apply is left out, and an error leaves the sample without a reward", () => {
    expect(addScores([one(null, "a")], [one(2, "b")])[0]?.reward).toBe(2);
    expect(addScores([one(null, "a")], [one(null, "b")])[0]?.reward).toBeNull();
    expect(addScores([one(1, "a")], [one(null, "b", "no")])[0]).toMatchObject({
      reward: null,
      error: { message: "no" },
    });
  });
});
