import { expect, test } from "bun:test";
import { EMPTY, isComplete, previewOf } from "./form.ts";

test("a form sends what its metric takes, and no empty field", () => {
  const form = { ...EMPTY, alert: "2000", deployment_id: "dep_1", job_id: "job_1" };
  expect(JSON.parse(JSON.stringify(previewOf(form)))).toEqual({
    metric: "latency_p95",
    deployment_id: "dep_1",
    comparison: "above",
    window_seconds: 300,
    thresholds: { alert: 2000 },
    evaluations: 1,
    recovery_evaluations: 1,
    min_samples: 1,
    no_data: "no_data",
  });
});

test("a form is complete with a threshold, and with what its metric needs", () => {
  expect(isComplete(EMPTY)).toBe(false);
  expect(isComplete({ ...EMPTY, warning: "0" })).toBe(true);
  const reward = { ...EMPTY, metric: "reward" as const, alert: "1" };
  expect([isComplete(reward), isComplete({ ...reward, job_id: "job_1" })]).toEqual([false, true]);
});
