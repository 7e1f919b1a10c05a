import { expect, test } from "bun:test";
import { AI_NOT_PROVEN, ensembleOf, UNLIKE_TRAINING } from "./tiers.ts";

test("an ensemble is the mean of the models that succeeded", () => {
  const failed = { score: null, status: "error" };
  const models = { a: { score: 0.2, status: "success" }, b: failed, c: { score: 0.6, status: "success" } };
  expect(ensembleOf(models)).toMatchObject({ succeeded: 2, total: 3 });
  expect(ensembleOf(models)?.score).toBeCloseTo(0.4, 12);
  expect(ensembleOf({ b: failed })).toBeUndefined();
});

const success = (score: number, more: object = {}) => ({ score, status: "success", ...more });

test("a file that all models call unlike training is uncertain, whatever its score", () => {
  const sure = success(0.95, { unlike: true });
  expect(ensembleOf({ a: sure, b: sure })).toMatchObject({
    prediction: "uncertain",
    verdict: "uncertain",
    isFake: null,
    confidence: 0,
    score: 0.95,
    reason: UNLIKE_TRAINING,
  });
  expect(ensembleOf({ a: sure, b: success(0.95, { unlike: false }) })).toMatchObject({
    prediction: "ai",
    reason: null,
  });
  expect(ensembleOf({ a: sure, b: success(0.95) })).toMatchObject({ prediction: "ai", reason: null });
});

test("the tier ai needs the score from which on it is proven", () => {
  const at = (score: number, from: number | null) => ensembleOf({ a: success(score, { ai_from: from }) });
  expect(at(0.92, 0.9)).toMatchObject({ prediction: "ai", reason: null });
  expect(at(0.88, 0.9)).toMatchObject({
    prediction: "likely_ai",
    verdict: "likely_ai",
    isFake: true,
    reason: AI_NOT_PROVEN,
  });
  expect(at(0.98, null)).toMatchObject({ prediction: "likely_ai", reason: AI_NOT_PROVEN });
  expect(at(0.8, null)).toMatchObject({ prediction: "likely_ai", reason: null });
  expect(ensembleOf({ a: success(0.9) })).toMatchObject({ prediction: "ai", reason: null });
});
