import { describe, expect, test } from "bun:test";
import { judgeEffect, judgeRewards, type StepEffect } from "./guards.ts";

const effect = (step: number, change: Partial<StepEffect> = {}): StepEffect => ({
  step,
  learningRate: 1e-5,
  maxAdvantage: 1,
  gradNorm: 0.5,
  changed: true,
  ...change,
});
const steps = (count: number, change: Partial<StepEffect>) =>
  Array.from({ length: count }, (_, i) => effect(i, change));
const LIMIT = { limit: 5 };

describe("a job that trains nothing", () => {
  test.each([
    ["same reward", { maxAdvantage: 0, changed: true }],
    ["gradient was 0", { gradNorm: 0, maxAdvantage: null }],
    ["mask_truncated_completions", { gradNorm: 0 }],
    ["too small", { changed: false }],
    ["not a finite number", { gradNorm: Number.NaN, changed: false }],
  ])("ends after the limit of steps, with the cause: %s", (cause, change) => {
    expect(judgeEffect(steps(4, change), LIMIT)).toBeNull();
    const verdict = judgeEffect(steps(5, change), LIMIT);
    expect(verdict?.code).toBe("no_effective_update");
    expect(verdict?.message).toContain(cause);
  });

  test("one step with an effect resets the count", () => {
    expect(judgeEffect([...steps(9, { gradNorm: 0 }), effect(9)], LIMIT)).toBeNull();
    expect(judgeEffect([...steps(9, { gradNorm: 0 }), effect(9), ...steps(4, { gradNorm: 0 })], LIMIT)).toBeNull();
  });

  test("steps at rate 0 count neither way: neither for the end nor as an effect", () => {
    const idle = { changed: false };
    const paused = { learningRate: 0, changed: false };
    expect(judgeEffect(steps(50, paused), LIMIT)).toBeNull();
    expect(judgeEffect([...steps(3, idle), effect(3, paused), ...steps(2, idle)], LIMIT)?.code).toBe(
      "no_effective_update",
    );
  });

  test("rewards that became equal by learning are no fault; a broken gradient is a fault", () => {
    const judged = (change: Partial<StepEffect>) => judgeEffect(steps(5, change), { ...LIMIT, hasLearned: true });
    expect(judged({ maxAdvantage: 0, gradNorm: 0 })).toBeNull();
    expect(judged({ gradNorm: Number.NaN, changed: false })?.message).toContain("not a finite number");
    expect(judged({ changed: false })?.message).toContain("too small");
  });

  test("the reported cause is the most frequent one", () => {
    expect(judgeEffect([effect(0, { gradNorm: 0 }), ...steps(4, { maxAdvantage: 0 })], LIMIT)?.message).toContain(
      "same reward",
    );
  });
});

describe("a reward that fails", () => {
  test("ends the job above a fifth of a step, not at a fifth", () => {
    expect(judgeRewards({ samples: 10, errored: 2, example: null })).toBeNull();
    expect(judgeRewards({ samples: 10, errored: 3, example: "KeyError: 'answer'" })).toEqual({
      code: "reward_error",
      message: "The reward failed for 3 of 10 completions of a step (30 %). First error: KeyError: 'answer'",
    });
    expect(judgeRewards({ samples: 0, errored: 0, example: null })).toBeNull();
    expect(judgeRewards({ samples: 1, errored: 1, example: null })?.message).toEndWith(
      "1 of 1 completions of a step (100 %)",
    );
  });
});
