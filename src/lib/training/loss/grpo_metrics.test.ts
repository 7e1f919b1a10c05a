import { describe, expect, test } from "bun:test";
import { type GrpoOptions, type Rollout, weighRollout } from "./grpo.ts";
import { grpoMetrics, joinTallies } from "./grpo_metrics.ts";
import type { Correction } from "./importance.ts";

const plain: GrpoOptions = {
  epsilon: 0.2,
  epsilonHigh: 0.2,
  surrogate: "clip",
  sapoTemperatures: { positive: 1, negative: 1.05 },
  delta: null,
  beta: 0,
  importanceSamplingLevel: "token",
  correction: null,
  distillation: null,
  correctsKl: false,
  offPolicyThreshold: null,
};
const rollout = (logp: number[], advantage: number, more: Partial<Rollout> = {}): Rollout => ({
  logp,
  logpOld: null,
  logpRef: null,
  logpTeacher: null,
  uncertain: null,
  logpSampler: null,
  entropy: null,
  active: new Uint8Array(logp.length).fill(1),
  advantage,
  ...more,
});

describe("metrics of a step", () => {
  const both = { logpOld: [-1, -1], logpSampler: [-1.2, -1] };
  const ratios = [-1 + Math.log(2), -1 + Math.log(0.5)]; // 2 and 0.5, bounds 0.8 and 1.2
  const tallies = [1, -1, 0].map((advantage) => weighRollout(rollout(ratios, advantage, both), 1, plain).tally);

  test("a ratio counts as clipped only if the advantage's sign makes the bound active", () => {
    expect(grpoMetrics(tallies[0]!)).toMatchObject({ "clip_ratio/high_mean": 0.5, "clip_ratio/low_mean": 0 });
    expect(grpoMetrics(tallies[1]!)).toMatchObject({ "clip_ratio/high_mean": 0, "clip_ratio/low_mean": 0.5 });
    expect(grpoMetrics(tallies[2]!)["clip_ratio/region_mean"]).toBe(0);
  });

  test("join to means over tokens and extremes over completions", () => {
    const metrics = grpoMetrics(joinTallies(tallies));
    expect(metrics["clip_ratio/low_mean"]).toBeCloseTo(1 / 6, 12);
    expect(metrics["clip_ratio/region_mean"]).toBeCloseTo(1 / 3, 12);
    expect(metrics).toMatchObject({ "clip_ratio/low_min": 0, "clip_ratio/high_max": 0.5 });
    expect(metrics["ratio/mean"]).toBeCloseTo(1.25, 12);
    expect(metrics["sampling/sampling_logp_difference/mean"]).toBeCloseTo(0.1, 12);
    expect(metrics["sampling/sampling_logp_difference/max"]).toBeCloseTo(0.2, 12);
  });

  test("what was not measured has no key", () => {
    const { loss, ...others } = grpoMetrics(weighRollout(rollout([-1], 1), 1, plain).tally);
    expect(Object.keys(others).filter((key) => /^(kl|entropy|sampling)/.test(key))).toEqual([]);
    expect(Object.values({ loss, ...others }).every(Number.isFinite)).toBe(true);
    expect(grpoMetrics(joinTallies([]))).toEqual({ loss: 0 });
  });

  test("count completions, not tokens, if tokens share a ratio", () => {
    const longer = rollout([-0.5, -0.5, -0.5], 1, { logpOld: [-1, -1, -1] });
    const options = { ...plain, importanceSamplingLevel: "sequence" as const };
    const shorter = rollout([-1], 1, { logpOld: [-1] });
    const two = joinTallies([longer, shorter].map((each) => weighRollout(each, 1, options).tally));
    expect(grpoMetrics(two)["clip_ratio/high_mean"]).toBe(0.5);
  });
});

describe("the gap between the engine that samples and the one that trains", () => {
  const given = rollout([-1, -1], 1, { logpOld: [-1, -1], logpSampler: [-1.5, -0.9] });

  test("is reported even if nothing corrects it", () => {
    const { weights, tally } = weighRollout(given, 1, plain);
    expect([...weights]).toEqual([1, 1]);
    expect(grpoMetrics(tally)["sampling/sampling_logp_difference/mean"]).toBeCloseTo(0.3, 12);
    expect(grpoMetrics(tally)["sampling/sampling_logp_difference/max"]).toBeCloseTo(0.5, 12);
    expect(grpoMetrics(tally)["sampling/importance_sampling_ratio/mean"]).toBeUndefined();
  });

  test("is corrected by token: e^0.5 is cut to 1.2, e^−0.1 stays", () => {
    const correction: Correction = { mode: "token_truncate", clipMin: null, clipMax: 1.2 };
    const { weights, tally } = weighRollout(given, 1, { ...plain, correction });
    expect(weights[0]).toBeCloseTo(1.2, 6);
    expect(weights[1]).toBeCloseTo(Math.exp(-0.1), 6);
    expect(grpoMetrics(tally)["sampling/importance_sampling_ratio/max"]).toBe(1.2);
  });

  test("removes a whole completion if its ratio e^0.4 is above the bound", () => {
    const correction: Correction = { mode: "sequence_mask", clipMin: null, clipMax: 1.4 };
    expect([...weighRollout(given, 1, { ...plain, correction }).weights]).toEqual([0, 0]);
    const kept = weighRollout(given, 1, { ...plain, correction: { ...correction, clipMax: 1.5 } });
    expect(kept.weights[1]).toBeCloseTo(Math.exp(0.4), 6);
  });
});
