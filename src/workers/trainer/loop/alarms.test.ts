import { describe, expect, test } from "bun:test";
import { openRandom } from "../../../lib/random.ts";
import { type AlarmCode, newAlarms, type StepMetrics } from "./alarms.ts";

const history = (key: string, values: number[]): StepMetrics[] =>
  values.map((value, step) => ({ step, values: { [key]: value } }));
const codes = (past: StepMetrics[]) => newAlarms(past, []).alarms.map(({ code }) => code);
const repeat = (value: number, count: number) => new Array<number>(count).fill(value);

describe("reward", () => {
  test("that rose and fell raises the alarm, with both numbers", () => {
    const past = history("reward", [...repeat(0.3, 10), ...repeat(0.8, 10), ...repeat(0.2, 10)]);
    const [alarm] = newAlarms(past, []).alarms;
    expect(alarm).toMatchObject({ code: "reward_collapse", step: 29 });
    expect(alarm?.message).toContain("from 0.8 to 0.2");
  });

  test("that grows, stays or fluctuates raises no alarm", () => {
    const random = openRandom(8);
    for (let round = 0; round < 200; round++) {
      const slope = round % 2 === 0 ? 0 : 0.004;
      const rewards = Array.from({ length: 120 }, (_, i) => 0.3 + slope * i + 0.3 * (random() - 0.5));
      for (let end = 20; end <= 120; end += 10) expect(codes(history("reward", rewards.slice(0, end)))).toEqual([]);
    }
  });

  test("that fell by less than a tenth raises no alarm", () => {
    expect(codes(history("reward", [...repeat(1, 10), ...repeat(0.95, 20)]))).toEqual([]);
    expect(codes(history("reward", [...repeat(1, 10), ...repeat(0.85, 20)]))).toEqual(["reward_collapse"]);
  });

  test("of negative numbers can fall too", () => {
    expect(codes(history("reward", [...repeat(-1, 10), ...repeat(-3, 10)]))).toEqual(["reward_collapse"]);
  });
});

test.each([
  ["kl above 1 nat a token", "kl", repeat(1.5, 5), ["kl_blow_up"]],
  ["kl that grew tenfold", "kl", [...repeat(0.02, 20), ...repeat(0.4, 5)], ["kl_blow_up"]],
  ["kl that grew tenfold and is still small", "kl", [...repeat(0.001, 20), ...repeat(0.05, 5)], []],
  ["kl that grows slowly", "kl", Array.from({ length: 50 }, (_, i) => 0.01 * i), []],
  ["more than half of the completions cut off", "completions/clipped_ratio", repeat(0.6, 5), ["truncation"]],
  ["half of them", "completions/clipped_ratio", repeat(0.5, 5), []],
  ["a single step of them", "completions/clipped_ratio", [0, 0, 0, 0, 1], []],
  ["entropy at a twentieth", "entropy", [...repeat(2, 5), ...repeat(0.1, 5)], ["entropy_collapse"]],
  ["entropy at a fifth", "entropy", [...repeat(2, 5), ...repeat(0.4, 5)], []],
  ["groups of one reward, for long", "frac_reward_zero_std", [0.5, ...repeat(1, 20)], ["same_rewards"]],
  ["groups of one reward, but for a step", "frac_reward_zero_std", [...repeat(1, 19), 0.9, ...repeat(1, 10)], []],
  ["too few steps to tell", "entropy", [2, 2, 2, 0.01, 0.01], []],
] as [string, string, number[], AlarmCode[]][])("%s", (_, key, values, expected) => {
  expect(codes(history(key, values))).toEqual(expected);
});

test("an alarm is raised once while its condition holds, and again after the condition ended", () => {
  const shares = [...repeat(0, 5), ...repeat(1, 10), ...repeat(0, 10), ...repeat(1, 10)];
  let raised: AlarmCode[] = [];
  const steps: number[] = [];
  for (let end = 1; end <= shares.length; end++) {
    const now = newAlarms(history("completions/clipped_ratio", shares.slice(0, end)), raised);
    raised = now.raised;
    steps.push(...now.alarms.map(({ step }) => step));
  }
  expect(steps).toEqual([7, 27]); // three of the last five
});

test("without history there is no alarm", () => expect(newAlarms([], [])).toEqual({ alarms: [], raised: [] }));
