import { describe, expect, test } from "bun:test";
import { openRandom } from "../../random.ts";
import type { Rollout } from "./grpo.ts";
import { grpoMetrics } from "./grpo_metrics.ts";
import { leaveOneOut, penalized, weighCompletion } from "./rloo.ts";

const all = (length: number) => new Uint8Array(length).fill(1);
const rollout = (logp: number[], advantage: number, more: Partial<Rollout> = {}): Rollout => ({
  logp,
  logpOld: null,
  logpRef: null,
  logpTeacher: null,
  uncertain: null,
  logpSampler: null,
  entropy: null,
  active: all(logp.length),
  advantage,
  ...more,
});
const bounds = { epsilon: 0.2, epsilonHigh: 0.3 };

describe("advantages by hand", () => {
  const plain = { numGenerations: 3, normalize: false };

  test("a reward minus the mean of the others: 1, 2, 6 → 1 − 4, 2 − 3.5, 6 − 1.5", () => {
    expect([...leaveOneOut([1, 2, 6], plain)]).toEqual([-3, -1.5, 4.5]);
  });

  test("a sample without a reward is in no baseline; a single reward has none", () => {
    expect([...leaveOneOut([1, null, 5, null, 7, null], plain)]).toEqual([-4, 0, 4, 0, 0, 0]);
  });

  test("equal rewards give exactly 0, also where sums would round", () => {
    expect([...leaveOneOut([0.1, 0.1, 0.1], plain)]).toEqual([0, 0, 0]);
  });

  test("normalized: −2, 2, −4, 4 have mean 0 and deviation √(40/3)", () => {
    const std = Math.sqrt(40 / 3) + 1e-4;
    const values = leaveOneOut([1, 3, 0, 4], { numGenerations: 2, normalize: true });
    expect([...values].map((value) => value * std)).toEqual([-2, 2, -4, 4].map((value) => expect.closeTo(value, 10)));
  });
});

describe("the reward with its penalty", () => {
  const compared = { logp: [-1, -2, -9], logpRef: [-1.5, -2.25, -1], active: Uint8Array.of(1, 1, 0) };

  test("β times the sum of log ratios over active tokens: 3 − 0.1 · (0.5 + 0.25)", () => {
    expect(penalized(3, compared, { beta: 0.1, clipRange: null })).toBeCloseTo(2.925, 12);
  });

  test("the reward is bounded before the penalty; without beta nothing else is needed", () => {
    expect(penalized(3, compared, { beta: 0.1, clipRange: [-1, 2] })).toBeCloseTo(1.925, 12);
    const none = { logp: null, logpRef: null, active: all(0) };
    expect(penalized(-30, none, { beta: 0, clipRange: [-1, 2] })).toBe(-1);
    expect(penalized(null, compared, { beta: 0.1, clipRange: null })).toBeNull();
    expect(penalized(Number.NaN, compared, { beta: 0.1, clipRange: null })).toBeNull();
    expect(() => penalized(1, none, { beta: 0.1, clipRange: null })).toThrow("reference");
  });
});

describe("the loss by hand", () => {
  test("at the first pass every token weighs the advantage times the scale, and the loss counts once", () => {
    const { weights, loss } = weighCompletion(rollout([-1, -2, -3], 0.5), 0.25, bounds);
    expect([...weights]).toEqual([0.125, 0.125, 0.125]);
    expect(loss).toBe(-0.125);
  });

  test("the ratio is that of the whole completion: log ratios 0.2 and 0.05 give e^0.25 = 1.284", () => {
    const given = rollout([-1, -2], 2, { logpOld: [-1.2, -2.05] });
    const { weights, loss } = weighCompletion(given, 0.5, bounds);
    expect(loss).toBeCloseTo(-1.2840254166877414, 12);
    for (const weight of weights) expect(weight).toBeCloseTo(1.2840254166877414, 6);
    const clipped = weighCompletion(given, 0.5, { epsilon: 0.2, epsilonHigh: 0.2 });
    expect(clipped.loss).toBeCloseTo(-1.2, 12);
    expect([...clipped.weights].map(Math.abs)).toEqual([0, 0]);
    expect(grpoMetrics(clipped.tally)).toMatchObject({
      "clip_ratio/high_mean": 1,
      "ratio/mean": expect.closeTo(1.284),
    });
  });

  test("masked tokens are in no sum; kl is the mean log ratio to the reference", () => {
    const active = Uint8Array.of(1, 0, 1);
    const more = { active, logpOld: [-1, 0, -1], logpRef: [-2, 9, -1.5], entropy: [1, 50, 3] };
    const { weights, tally } = weighCompletion(rollout([-1, -9, -1], 1, more), 1, bounds);
    expect([...weights]).toEqual([1, 0, 1]);
    expect(grpoMetrics(tally)).toMatchObject({ kl: 0.75, entropy: 2, "ratio/mean": 1 });
  });
});

test("the weights are the derivative of −min(r·A, clamp(r)·A), with r as a product over tokens", () => {
  const random = openRandom(23);
  for (let round = 0; round < 200; round++) {
    const logp = Array.from({ length: 4 }, () => -2 * random());
    const logpOld = logp.map((value) => value + 0.3 * (random() - 0.5));
    const active = Uint8Array.from(logp, (_, t) => (t === 0 || random() < 0.7 ? 1 : 0));
    const advantage = 3 * (random() - 0.5);
    const lossAt = (moved: readonly number[]) => {
      const r = moved.reduce((product, value, t) => product * (active[t] ? Math.exp(value - logpOld[t]!) : 1), 1);
      return -0.7 * Math.min(r * advantage, Math.max(0.8, Math.min(r, 1.3)) * advantage);
    };
    const { weights, loss } = weighCompletion(rollout(logp, advantage, { logpOld, active }), 0.7, bounds);
    expect(loss).toBeCloseTo(lossAt(logp), 10);
    for (let t = 0; t < 4; t++) {
      const by = (delta: number) => lossAt(logp.map((value, u) => (u === t ? value + delta : value)));
      const [left, right] = [(loss - by(-1e-6)) / 1e-6, (by(1e-6) - loss) / 1e-6];
      if (Math.abs(left - right) > 1e-3) continue; // the step crosses a kink
      expect(Math.abs(-weights[t]! - (left + right) / 2)).toBeLessThan(1e-5);
    }
  }
});
