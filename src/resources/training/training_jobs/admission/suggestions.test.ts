import { afterAll, expect, test } from "bun:test";
import { testApp } from "../../../../../test/harness.ts";
import { LONGEST_TURN_MS, longestTurnMsOf } from "../../../../../test/turns.ts";

const app = testApp();
afterAll(() => app.close().then(app.remove));

const LONG = "abcdefghij".repeat(7);
const unknown = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`max_${i}_${LONG}`.slice(0, 64), 1]));

const validate = (more: object) =>
  app.call("POST", "/v1/training_jobs/validate", { base_model: "verk-tiny", method: "grpo", ...more });

test.each([
  ["hyperparameters", (names: object) => ({ hyperparameters: names })],
  ["lora", (names: object) => ({ lora: names })],
  ["the body", (names: object) => names],
])("S8: many unknown names in %s let others in", async (_, bodyOf) => {
  await validate(bodyOf(unknown(30))); // the first request compiles
  const longest = await longestTurnMsOf(() => validate(bodyOf(unknown(9_900))));
  expect(longest).toBeLessThan(2 * LONGEST_TURN_MS); // the client of the test writes and reads JSON in the same turns
});
