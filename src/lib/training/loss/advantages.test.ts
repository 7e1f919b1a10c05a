import { describe, expect, test } from "bun:test";
import { openRandom } from "../../random.ts";
import {
  advantagesOf,
  advantagesOfEach,
  metricsByFunction,
  type Reward,
  SCALE_REWARDS,
  spreadOf,
} from "./advantages.ts";

const of = (rewards: Reward[], numGenerations: number, scaleRewards: (typeof SCALE_REWARDS)[number] = "group") =>
  advantagesOf(rewards, { numGenerations, scaleRewards });

function expectAll(values: Float64Array, expected: number[]) {
  expect(values).toHaveLength(expected.length);
  for (const [i, value] of expected.entries()) expect(values[i]).toBeCloseTo(value, 12);
}

describe("advantages by hand", () => {
  test("a group is scaled by its own standard deviation with n − 1 and 1e-4 added", () => {
    // mean 2, deviations −1 0 1 0, squares 2 / (4 − 1) = 0.6667, std 0.8164966
    const std = Math.sqrt(2 / 3);
    const { values, metrics } = of([1, 2, 3, 2], 4);
    expectAll(
      values,
      [-1, 0, 1, 0].map((deviation) => deviation / (std + 1e-4)),
    );
    expect(metrics).toEqual({ reward: 2, reward_std: expect.closeTo(std, 12), frac_reward_zero_std: 0 });
  });

  test("batch scales by the deviation of all rewards, the baseline stays the group's mean", () => {
    // all: mean 1.25, (0−1.25)² + (1−1.25)² + (1−1.25)² + (3−1.25)² = 4.75, / 3
    const std = Math.sqrt(4.75 / 3);
    const { values } = of([0, 1, 1, 3], 2, "batch");
    expectAll(
      values,
      [-0.5, 0.5, -1, 1].map((deviation) => deviation / (std + 1e-4)),
    );
  });

  test("none leaves the deviation from the group's mean as it is", () => {
    expect([...of([0, 1, 1, 3], 2, "none").values]).toEqual([-0.5, 0.5, -1, 1]);
  });

  test("a sample without a reward is in no mean and has advantage 0", () => {
    // of 1 and 3: mean 2, std sqrt(2)
    const { values, scored, metrics } = of([1, null, 3, Number.NaN], 4);
    expect(values[0]).toBeCloseTo(-1 / (Math.SQRT2 + 1e-4), 12);
    expect(values[2]).toBeCloseTo(1 / (Math.SQRT2 + 1e-4), 12);
    expect([values[1], values[3]]).toEqual([0, 0]);
    expect(scored).toEqual([true, false, true, false]);
    expect(metrics["reward"]).toBe(2);
  });

  test("a group with fewer than two rewards gives no gradient, and is counted as such", () => {
    const { values, useful, metrics } = of([5, null, null, null, 0, 1], 2);
    expect([...values.slice(0, 4)]).toEqual([0, 0, 0, 0]);
    expect(useful).toEqual([false, false, true]);
    expect(metrics["frac_reward_zero_std"]).toBeCloseTo(2 / 3, 12);
  });

  test("rewards that differ only by rounding are equal", () => {
    expect([...of([0.1 + 0.2, 0.3, 0.3, 0.3], 4).values]).toEqual([0, 0, 0, 0]);
    expect([...of([0.1, 0.1, 0.1, 1, 2, 3], 3, "batch").values.slice(0, 3)]).toEqual([0, 0, 0]);
  });

  test("without any reward there is no mean", () => {
    expect(of([null, null], 2).metrics).toEqual({ frac_reward_zero_std: 1 });
  });

  test("rewards that do not form whole groups are an error of the caller", () => {
    expect(() => of([1, 2, 3], 2)).toThrow("3 rewards");
  });
});

test("each function has its mean and deviation over its own answers", () => {
  const metrics = metricsByFunction({ exact: [1, 0, null, 1], format: [null, null, null, null], one: [4] });
  expect(metrics["rewards/exact/mean"]).toBeCloseTo(2 / 3, 12);
  expect(metrics["rewards/exact/std"]).toBeCloseTo(Math.sqrt((2 / 9 + 4 / 9) / 2), 12); // (1/3)²·2 + (2/3)² = 6/9
  expect(metrics["rewards/one/mean"]).toBe(4);
  expect(Object.keys(metrics)).toHaveLength(3);
});

test("in every group advantages add up to 0 and, scaled by group, have deviation close to 1", () => {
  const random = openRandom(3);
  for (let round = 0; round < 200; round++) {
    const size = 2 + Math.floor(random() * 7);
    const rewards = Array.from({ length: 4 * size }, () => (random() < 0.2 ? null : 10 * random() - 5));
    for (const scale of SCALE_REWARDS) {
      const { values, useful, scored } = of(rewards, size, scale);
      useful.forEach((isUseful, group) => {
        const own = [...values.slice(group * size, (group + 1) * size)];
        expect(own.reduce((a, b) => a + b, 0)).toBeCloseTo(0, 9);
        if (!isUseful) expect(own.every((value) => value === 0)).toBe(true);
        const rewarded = own.filter((_, i) => scored[group * size + i]);
        const { std } = spreadOf(rewarded);
        const raw = spreadOf(rewards.slice(group * size, (group + 1) * size)).std ?? 0;
        if (isUseful && scale === "group") expect(std).toBeCloseTo(raw / (raw + 1e-4), 9);
      });
    }
  }
});

test("normalize_then_sum: a reward with small differences counts as much as one with large ones", () => {
  const large = { weight: 1, rewards: [0, 100, 0, 100] };
  const small = { weight: 1, rewards: [0, 0, 1, 1] };
  const totals = [0, 100, 1, 101];
  const summed = advantagesOf(totals, { numGenerations: 4, scaleRewards: "group" }).values;
  expect(summed[2]! - summed[0]!).toBeLessThan(0.02);
  const each = advantagesOfEach(totals, [large, small], 4);
  expect(each[1]!).toBeCloseTo(each[2]!, 2);
  // Normalized values are ±√3/2 for each function; their sums −√3, 0, 0, √3 have the deviation √2.
  [-Math.sqrt(1.5), 0, 0, Math.sqrt(1.5)].forEach((value, i) => {
    expect(each[i]!).toBeCloseTo(value, 1);
  });
  expect(each[3]! + each[0]!).toBeCloseTo(0, 9);
});

test("normalize_then_sum: weights, missing values, equal groups and samples without a reward", () => {
  const twice = advantagesOfEach([0, 1, 0, 1], [{ weight: 2, rewards: [0, 1, 0, 1] }], 2);
  expect([...twice].map(Math.sign)).toEqual([-1, 1, -1, 1]);
  const opposed = [
    { weight: 1, rewards: [0, 1, 2] },
    { weight: -1, rewards: [0, 1, 2] },
  ];
  expect([...advantagesOfEach([0, 0, 0], opposed, 3)]).toEqual([0, 0, 0]);
  const lacking = advantagesOfEach([1, null, 3], [{ weight: 1, rewards: [1, 2, 3] }], 3);
  expect(lacking[1]).toBe(0);
  expect(lacking[2]!).toBeGreaterThan(0);
  expect([...advantagesOfEach([5, 5], [{ weight: 1, rewards: [5, 5] }], 2)]).toEqual([0, 0]);
});
