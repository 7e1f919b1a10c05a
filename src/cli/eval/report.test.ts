import { expect, test } from "bun:test";
import type { ExperimentItem, ExperimentSummary } from "../../resources/quality/experiments/results_schema.ts";
import { comparisonTable, regressionTable, verdicts } from "./report.ts";

const figures = (mean: number | null, comparison: object | null) => ({
  evaluator: "accuracy",
  scored: 20,
  unscored: 0,
  mean,
  pass_rate: mean,
  comparison,
  ci_low: mean === null ? null : mean - 0.1,
  ci_high: mean === null ? null : mean + 0.1,
});
const target = (name: string, mean: number | null, comparison: object | null = null) => ({
  target: name,
  items: 20,
  errors: 1,
  latency_ms_p50: 120.4,
  latency_ms_p95: 200,
  prompt_tokens: 60,
  completion_tokens: 40,
  evaluators: [figures(mean, comparison)],
});
const better = { mean_difference: 0.39, p_value: 0.00042, significant: true };
const summary = (...targets: object[]) =>
  ({ baseline: "base", targets, winners: { accuracy: "tuned" } }) as unknown as ExperimentSummary;

test("targets stand side by side with margins of error, the baseline first", () => {
  const { header, rows } = comparisonTable(summary(target("tuned", 0.81, better), target("base", 0.42)));
  expect(header).toEqual(["EVALUATOR", "base", "tuned", "vs base"]);
  expect(rows).toEqual([
    ["accuracy", "0.420 ± 0.100", "0.810 ± 0.100", "+0.390, p = 0.0004 *"],
    ["errors", "1 of 20", "1 of 20", ""],
    ["latency p50", "120 ms", "120 ms", ""],
    ["tokens", "40", "40", ""],
  ]);
});

test("a loss has a minus, a small p its bound, and a target without a score says so", () => {
  const worse = { mean_difference: -0.2, p_value: 0.000001, significant: true };
  const none = { mean_difference: 0.01, p_value: 0.7, significant: false };
  const cells = (comparison: object) =>
    comparisonTable(summary(target("base", 1), target("t", 0.8, comparison))).rows[0]?.[3];
  expect([cells(worse), cells(none)]).toEqual(["−0.200, p < 0.0001 *", "+0.010, p = 0.7000"]);
  expect(comparisonTable(summary(target("base", null))).rows[0]).toEqual(["accuracy", "no score"]);
});

test("one sentence says which target is better", () => {
  const both = summary(target("base", 0.4), target("tuned", 0.8, better));
  expect(verdicts(both)).toEqual(["accuracy: tuned is better than base."]);
  expect(verdicts({ ...both, winners: { accuracy: "base" } })).toEqual([
    "accuracy: base is better than the other targets.",
  ]);
  expect(verdicts({ ...both, winners: { accuracy: null } })).toEqual([
    "accuracy: no significant difference (p ≥ 0.05).",
  ]);
  expect(verdicts(summary(target("base", 0.4)))).toEqual([]);
});

test("more than two targets are ranked", () => {
  const sweep = summary(target("base", 0.4), target("low", 0.5), target("none", null), target("tuned", 0.8, better));
  expect(verdicts(sweep)).toEqual([
    "accuracy, best first: tuned (0.800), low (0.500), base (0.400).",
    "accuracy: tuned is better than base.",
  ]);
});

test("a regression shows both answers on one line", () => {
  const scores = {
    accuracy: { score: 0, baseline_score: 1, regression: true },
    brevity: { score: 1, regression: false },
  };
  const item = { row_id: 7, target: "tuned", scores, baseline_output: "4", output: "four\nor five" };
  expect(regressionTable([item as unknown as ExperimentItem]).rows).toEqual([
    ["7", "tuned", "accuracy", "1.000 → 0.000", "4", "four or five"],
  ]);
});
