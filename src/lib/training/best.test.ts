import { describe, expect, test } from "bun:test";
import { type BestSettings, type BestState, metricFault, noteEvaluation, resolveBest } from "./best.ts";

const OFF: BestSettings = {
  early_stopping_patience: null,
  early_stopping_threshold: 0,
  metric_for_best_model: null,
  greater_is_better: null,
  load_best_model_at_end: false,
};
const falling: BestSettings = {
  ...OFF,
  early_stopping_patience: 2,
  metric_for_best_model: "eval_loss",
  greater_is_better: false,
};

/** The states after evaluations at steps 10, 20, 30 … */
const run = (values: readonly number[], settings: BestSettings) => {
  const states: (BestState & { improved: boolean })[] = [];
  for (const [i, value] of values.entries()) {
    const { state, improved } = noteEvaluation(states.at(-1) ?? null, { step: 10 * (i + 1), value }, settings);
    states.push({ ...state, improved });
    if (state.stopped !== null) break;
  }
  return states;
};

describe("stopping", () => {
  test("after as many evaluations in a row without improvement as the patience", () => {
    const states = run([3, 2, 2.5, 1.9, 2, 1.9, 1], falling);
    expect(states.map(({ waited }) => waited)).toEqual([0, 0, 1, 0, 1, 2]);
    expect(states.map(({ improved }) => improved)).toEqual([true, true, false, true, false, false]);
    expect(states.at(-1)).toMatchObject({
      value: 1.9,
      step: 40,
      stopped: "eval_loss did not improve in 2 evaluations. It was best after step 40: 1.9",
    });
  });

  test("an improvement up to the threshold is the best, but does not reset the patience", () => {
    const states = run([1, 0.95, 0.9], { ...falling, early_stopping_threshold: 0.1 });
    expect(states.map(({ waited, value }) => [waited, value])).toEqual([
      [0, 1],
      [1, 0.95],
      [2, 0.9],
    ]);
    expect(states.at(-1)?.stopped).toContain("best after step 30: 0.9");
  });

  test("greater may be better; without a patience a run never stops", () => {
    const rising = { ...falling, greater_is_better: true };
    expect(run([1, 2, 3, 3, 3, 3], rising).map(({ waited }) => waited)).toEqual([0, 0, 0, 1, 2]);
    const states = run([5, 1, 1, 1, 1], { ...rising, early_stopping_patience: null });
    expect([states.length, states.at(-1)?.stopped, states.at(-1)?.step]).toEqual([5, null, 10]);
  });
});

test("a value that is not finite is never the best, and counts as an evaluation without improvement", () => {
  const { NaN: none, POSITIVE_INFINITY: infinite, NEGATIVE_INFINITY: endless } = Number;
  const states = run([none, 2, endless, infinite], falling);
  expect(states.map(({ waited, value, improved }) => [waited, value, improved])).toEqual([
    [1, null, false],
    [0, 2, true],
    [1, 2, false],
    [2, 2, false],
  ]);
  expect(states.at(-1)).toMatchObject({ step: 20, stopped: expect.stringContaining("best after step 20: 2") });
  expect(run([none, infinite, 1], falling).at(-1)).toMatchObject({
    value: null,
    stopped: "eval_loss was not a finite number in 2 evaluations. Lower learning_rate",
  });
});

test("the metric is the method's headline on held-out rows, if a setting needs one", () => {
  const patient = { ...OFF, early_stopping_patience: 3 };
  expect(resolveBest("sft", OFF)).toEqual(OFF);
  expect(resolveBest("sft", patient)).toMatchObject({ metric_for_best_model: "eval_loss", greater_is_better: false });
  for (const method of ["grpo", "rloo"] as const)
    expect(resolveBest(method, patient)).toMatchObject({
      metric_for_best_model: "eval_reward",
      greater_is_better: true,
    });
  expect(resolveBest("kto", { ...OFF, load_best_model_at_end: true }).metric_for_best_model).toBe(
    "eval_rewards/margins",
  );
  const named = { ...OFF, metric_for_best_model: "nll_loss" };
  expect(resolveBest("orpo", named)).toMatchObject({
    metric_for_best_model: "eval_nll_loss",
    greater_is_better: false,
  });
  expect(resolveBest("orpo", { ...named, greater_is_better: true }).greater_is_better).toBe(true);
});

test("only metrics that an evaluation reports are accepted", () => {
  expect(metricFault("sft", "eval_loss")).toBeUndefined();
  expect(metricFault("sft", "eval_reward")).toBe("must be one of eval_loss");
  expect(metricFault("dpo", "rewards/accuracies")).toBeUndefined();
  expect(metricFault("grpo", "eval_rewards/right/mean")).toBeUndefined();
  expect(metricFault("grpo", "eval_loss")).toContain("must be eval_reward");
});
