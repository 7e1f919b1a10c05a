import { expect, test } from "bun:test";
import type { Method } from "./fields.ts";
import { readHyperparameters } from "./hyperparameters.ts";
import { dpoOptions, grpoOptions, scaleOptions, scheduleOf, stepsOf } from "./plan.ts";
import { type Facts, resolveHyperparameters } from "./resolve.ts";
import { learningRate } from "./schedule.ts";

const facts: Facts = { lora: false, rows: 100, parameters: 1e9, contextLength: 4096, hasCompletions: true };

function resolved<M extends Method>(method: M, raw: object) {
  const read = readHyperparameters(method, raw);
  const resolution = read.ok ? resolveHyperparameters(method, read.given, facts) : read;
  if (!resolution.ok) throw new Error(JSON.stringify(resolution.problems));
  return resolution.values;
}

test("GRPO's options come from the fields of their names", () => {
  const raw = { epsilon: 0.1, epsilon_high: 0.3, delta: 2, beta: 0.04, loss_type: "bnpo", max_completion_length: 77 };
  const values = resolved("grpo", { ...raw, importance_sampling_level: "sequence", per_device_train_batch_size: 16 });
  expect(grpoOptions(values)).toEqual({
    surrogate: "clip",
    sapoTemperatures: { positive: 1, negative: 1.05 },
    epsilon: 0.1,
    epsilonHigh: 0.3,
    delta: 2,
    beta: 0.04,
    importanceSamplingLevel: "sequence",
    correction: { mode: "sequence_mask", clipMin: null, clipMax: 3 },
    correctsKl: false,
    offPolicyThreshold: null,
    distillation: null,
  });
  expect(scaleOptions(values)).toEqual({ lossType: "bnpo", batchSize: 16, maxCompletionLength: 77 });
  expect(grpoOptions(resolved("distill", { distillation_weight: 0.5 })).distillation).toEqual({
    weight: 0.5,
    clip: 10,
  });
  expect(grpoOptions(resolved("grpo", { importance_sampling_correction: false })).correction).toBeNull();
  const surrogates = (["cispo", "sapo", "gspo"] as const).map(
    (loss_type) => grpoOptions(resolved("grpo", { loss_type })).surrogate,
  );
  expect(surrogates).toEqual(["cispo", "sapo", "clip"]);
});

test("DPO's options come from the fields of their names too", () => {
  expect(dpoOptions(resolved("dpo", { beta: 0.2, label_smoothing: 0.1 }))).toEqual({
    lossType: "sigmoid",
    beta: 0.2,
    labelSmoothing: 0.1,
  });
});

test("steps and rates of a job: 100 rows in batches of 8 for 2 epochs, a tenth of it warmup", () => {
  const values = resolved("sft", { num_train_epochs: 2, warmup_ratio: 0.1, learning_rate: 0.5 });
  const steps = stepsOf("sft", values, 100); // 13 batches an epoch
  expect(steps).toBe(26);
  const schedule = scheduleOf(values, steps); // 2.6 → 3 steps of warmup
  expect([0, 1, 3, 26].map((step) => learningRate(schedule, step))).toEqual([0, 0.5 / 3, 0.5, 0]);
  expect(stepsOf("grpo", resolved("grpo", {}), 100)).toBe(300); // one prompt a step, 3 epochs
});

test("every field that shapes a schedule reaches the schedule", () => {
  const raw = {
    lr_scheduler_type: "cosine_with_min_lr",
    lr_scheduler_kwargs: { min_lr_rate: 0.5 },
    learning_rate: 0.2,
  };
  expect(learningRate(scheduleOf(resolved("dpo", raw), 10), 10)).toBeCloseTo(0.1, 12);
});
