import { describe, expect, test } from "bun:test";
import {
  type GrpoStepPlan,
  learningRate,
  promptsPerGeneration,
  SCHEDULES,
  type Schedule,
  type ScheduleShape,
  type ScheduleType,
  totalGrpoSteps,
  totalSteps,
  warmupSteps,
} from "./schedule.ts";

const at = (type: ScheduleType, shape: ScheduleShape = {}): Schedule => ({
  type,
  learningRate: 0.8,
  warmupSteps: 4,
  totalSteps: 12,
  shape,
});

describe("learning rates by hand: 0.8 at most, 4 steps of warmup, 12 in all", () => {
  test.each([
    // at step 4 the warmup ends, at 8 half of the rest is over, at 10 three quarters
    ["constant", {}, [0.8, 0.8, 0.8, 0.8, 0.8, 0.8]],
    ["constant_with_warmup", {}, [0, 0.4, 0.8, 0.8, 0.8, 0.8]],
    ["linear", {}, [0, 0.4, 0.8, 0.4, 0.2, 0]],
    ["cosine", {}, [0, 0.4, 0.8, 0.4, 0.4 * (1 - Math.SQRT1_2), 0]],
    ["cosine", { num_cycles: 1 }, [0, 0.4, 0.8, 0, 0.4, 0.8]],
    ["cosine_with_restarts", { num_cycles: 2 }, [0, 0.4, 0.8, 0.8, 0.4, 0]],
    ["cosine_with_min_lr", { min_lr: 0.2 }, [0, 0.4, 0.8, 0.5, 0.2 + 0.3 * (1 - Math.SQRT1_2), 0.2]],
    ["cosine_with_min_lr", { min_lr_rate: 0.25 }, [0, 0.4, 0.8, 0.5, 0.2 + 0.3 * (1 - Math.SQRT1_2), 0.2]],
    ["polynomial", { lr_end: 0, power: 2 }, [0, 0.4, 0.8, 0.2, 0.05, 0]],
    ["inverse_sqrt", {}, [0, 0.4, 0.8, 0.8 * Math.SQRT1_2, 0.8 / Math.sqrt(2.5), 0.8 / Math.sqrt(3)]],
  ] as [ScheduleType, ScheduleShape, number[]][])("%s %j", (type, shape, expected) => {
    const rates = [0, 2, 4, 8, 10, 12].map((step) => learningRate(at(type, shape), step));
    for (const [i, rate] of expected.entries()) expect(rates[i]).toBeCloseTo(rate, 12);
  });

  test.each([...SCHEDULES])("%s is never negative nor above its peak, also past its end and without steps", (type) => {
    for (const [warmup, total] of [
      [0, 0],
      [0, 1],
      [5, 5],
      [3, 40],
      [9, 4],
    ] as const)
      for (let step = 0; step < 50; step++) {
        const schedule = { ...at(type, { min_lr_rate: 0.1 }), warmupSteps: warmup, totalSteps: total };
        const rate = learningRate(schedule, step);
        expect(rate).toBeGreaterThanOrEqual(0);
        expect(rate).toBeLessThanOrEqual(0.8 + 1e-12);
      }
  });
});

test("a polynomial rate stays at its end", () => {
  const rates = [12, 13, 40].map((step) => learningRate(at("polynomial", { lr_end: 0.08, power: 2 }), step));
  for (const rate of rates) expect(rate).toBeCloseTo(0.08, 12);
});

test("warmup: steps win over the ratio, a fraction is a ratio, and a ratio rounds up", () => {
  expect(warmupSteps(101, { warmup_steps: 7, warmup_ratio: 0.5 })).toBe(7);
  expect(warmupSteps(101, { warmup_steps: 0, warmup_ratio: 0.1 })).toBe(11); // 10.1
  expect(warmupSteps(101, { warmup_steps: 0.02, warmup_ratio: 0.5 })).toBe(3); // 2.02
  expect(warmupSteps(101, { warmup_steps: 0, warmup_ratio: 0 })).toBe(0);
});

describe("total steps", () => {
  const plan = {
    rows: 100,
    num_train_epochs: 3,
    max_steps: -1,
    per_device_train_batch_size: 8,
    gradient_accumulation_steps: 2,
  };
  test.each([
    ["100 rows are 13 batches, 7 steps an epoch", {}, 21],
    ["half an epoch more is 24.5 steps, 25", { num_train_epochs: 3.5 }, 25],
    ["max_steps wins", { max_steps: 5 }, 5],
    ["one row is one step", { rows: 1, num_train_epochs: 1 }, 1],
  ])("%s", (_, change, steps) => expect(totalSteps({ ...plan, ...change })).toBe(steps));

  const grpo: GrpoStepPlan = { ...plan, num_generations: 4, num_iterations: 1, steps_per_generation: 2 };
  test.each([
    // 8 · 2 / 4 = 4 prompts a generation, 25 generations of 2 batches, 25 steps an epoch
    ["a generation is a step where both take the same batches", {}, 75],
    ["two iterations are twice the steps", { num_iterations: 2 }, 150],
    ["102 prompts leave two over", { rows: 102 }, 75],
    ["generations of 8 prompts last two steps: 12 · 4 / 2", { steps_per_generation: 4 }, 72],
    ["fewer prompts than a generation takes are one generation", { rows: 3 }, 3],
  ])("GRPO: %s", (_, change, steps) => expect(totalGrpoSteps({ ...grpo, ...change })).toBe(steps));

  test("prompts that are sampled together", () => expect(promptsPerGeneration(grpo)).toBe(4));
});
