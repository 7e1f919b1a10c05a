/** The losses of GRPO that do not clip the ratio of each token, by hand. grpo.test.ts compares them with TRL's formulas. */
import { expect, test } from "bun:test";
import { type GrpoOptions, type Rollout, weighRollout } from "./grpo.ts";
import { grpoMetrics } from "./grpo_metrics.ts";

const plain: GrpoOptions = {
  surrogate: "clip",
  sapoTemperatures: { positive: 1, negative: 1.05 },
  epsilon: 0.2,
  epsilonHigh: 0.2,
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
  advantage,
  active: new Uint8Array(logp.length).fill(1),
  ...more,
});

test("cispo: the ratio, at most epsilon_high, is a constant weight of the log probability", () => {
  // A 2, scale 1/2, bound 3. Token 0: r = e^1.5 = 4.48 → 3. Token 1: r = e^−0.2 = 0.8187, which stays.
  // Loss: −1/2 · 2 · (3 · −1 + 0.8187 · −2) = 3 + 1.6375
  const { weights, loss, tally } = weighRollout(rollout([-1, -2], 2, { logpOld: [-2.5, -1.8] }), 0.5, {
    ...plain,
    surrogate: "cispo",
    epsilonHigh: 3,
  });
  expect(loss).toBeCloseTo(3 + 2 * 0.8187307530779818, 12);
  expect(weights[0]).toBeCloseTo(3, 6); // it does not vanish beyond the bound, unlike PPO's
  expect(weights[1]).toBeCloseTo(0.8187307530779818, 6);
  expect(grpoMetrics(tally)).toMatchObject({ "clip_ratio/high_mean": 0.5, "clip_ratio/low_mean": 0 });
  const down = weighRollout(rollout([-1, -2], -2, { logpOld: [-2.5, -1.8] }), 0.5, {
    ...plain,
    surrogate: "cispo",
    epsilonHigh: 3,
  });
  expect([down.weights[0], down.loss]).toEqual([-3, -loss]);
  expect(grpoMetrics(down.tally)["clip_ratio/region_mean"]).toBe(0);
});

test("gspo: all tokens of a completion share e to the mean log ratio, clipped in a narrow range", () => {
  const gspo = { ...plain, importanceSamplingLevel: "sequence" as const, epsilon: 3e-4, epsilonHigh: 4e-4 };
  // Log ratios 0.0009, −0.0003 and 0: mean 0.0002 → r = 1.00020002 < 1.0004. Scale 1/3: loss −r · A.
  const within = weighRollout(rollout([-0.9991, -2.0003, -3], 0.5, { logpOld: [-1, -2, -3] }), 1 / 3, gspo);
  expect(within.loss).toBeCloseTo(-0.5 * 1.00020002, 8);
  for (const weight of within.weights) expect(weight).toBeCloseTo((0.5 * 1.00020002) / 3, 6);
  // Log ratios 0.0012, 0 and 0.0003: mean 0.0005 → r = 1.000500125 > 1.0004: no gradient for A > 0
  const beyond = rollout([-0.9988, -2, -2.9997], 0.5, { logpOld: [-1, -2, -3] });
  const clipped = weighRollout(beyond, 1 / 3, gspo);
  expect(clipped.loss).toBeCloseTo(-0.5 * 1.0004, 12);
  expect([...clipped.weights].map(Math.abs)).toEqual([0, 0, 0]);
  expect(grpoMetrics(clipped.tally)).toMatchObject({ "clip_ratio/high_mean": 1 });
  const free = weighRollout({ ...beyond, advantage: -0.5 }, 1 / 3, gspo);
  expect(free.weights[0]).toBeCloseTo((-0.5 * 1.000500125) / 3, 6);
});

test("sapo: 4/τ · σ(τ · (r − 1)), with a temperature for each sign of the advantage", () => {
  const sapo = { ...plain, surrogate: "sapo" as const, sapoTemperatures: { positive: 1, negative: 2 } };
  // r = 2: A 1, τ 1 → 4 · σ(1) = 2.924234; slope 4 · 0.731059 · 0.268941 · 2
  const up = weighRollout(rollout([-1], 1, { logpOld: [-1 - Math.log(2)] }), 1, sapo);
  expect(up.loss).toBeCloseTo(-2.9242343145200196, 12);
  expect(up.weights[0]).toBeCloseTo(8 * 0.7310585786300049 * 0.2689414213699951, 6);
  // A −1, τ 2 → 2 · σ(2) = 1.761594; slope 4 · 0.880797 · 0.119203 · 2
  const down = weighRollout(rollout([-1], -1, { logpOld: [-1 - Math.log(2)] }), 1, sapo);
  expect(down.loss).toBeCloseTo(1.7615941559557649, 12);
  expect(down.weights[0]).toBeCloseTo(-8 * 0.8807970779778823 * 0.11920292202211755, 6);
  // At the first pass r = 1, and the weight is PPO's: A
  expect(weighRollout(rollout([-1], 0.7), 1, sapo).weights[0]).toBeCloseTo(0.7, 6);
});
