import { expect, test } from "bun:test";
import { ensembleOf } from "./tiers.ts";

test("an ensemble is the mean of the models that succeeded", () => {
  const failed = { score: null, status: "error" };
  const models = { a: { score: 0.2, status: "success" }, b: failed, c: { score: 0.6, status: "success" } };
  expect(ensembleOf(models)).toMatchObject({ succeeded: 2, total: 3 });
  expect(ensembleOf(models)?.score).toBeCloseTo(0.4, 12);
  expect(ensembleOf({ b: failed })).toBeUndefined();
});
