// tier: all (many seconds)
/** An experiment whose work never waits for anything outside this process. */
import { afterEach, expect, test } from "bun:test";
import { newDataset, runAll } from "../../../../../test/experiments_kit.ts";
import { manyApps, type TestApp } from "../../../../../test/harness.ts";
import { LONGEST_TURN_MS, longestTurnMsOf } from "../../../../../test/turns.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const recorded = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ prompt: `p${i}`, completion: `c${i}`, o1: `c${i}`, o2: "?" }));

async function newEvaluators(app: TestApp, count: number): Promise<string[]> {
  const names = Array.from({ length: count }, (_, i) => `same-${i}`);
  for (const name of names) {
    const config = { operation: name.endsWith("1") ? "contains" : "equals" };
    const { status } = await app.call("POST", "/v1/evaluators", { name, kind: "string_check", config });
    expect(status).toBe(201);
  }
  return names;
}

const targets = ["o1", "o2"].map((field) => ({ type: "outputs", field, name: field }));

test.each([
  [1_500, 1],
  [300, 16],
])("S3: an experiment over recorded outputs lets others in (%i rows, %i evaluators)", async (rows, count) => {
  const app = open();
  const dataset = await newDataset(app, recorded(rows));
  const evaluators = await newEvaluators(app, count);
  const { status, body } = await app.call("POST", "/v1/experiments", { dataset, targets, evaluators });
  expect(status).toBe(201);
  expect(await longestTurnMsOf(() => runAll(app))).toBeLessThan(LONGEST_TURN_MS);
  const done = (await app.call("GET", `/v1/experiments/${body.id}`)).body;
  expect(done).toMatchObject({ status: "completed", progress: { done: rows * 2, failed: 0 } });
  let summary: typeof body;
  const read = async () => {
    summary = (await app.call("GET", `/v1/experiments/${body.id}/summary`)).body;
  };
  expect(await longestTurnMsOf(read)).toBeLessThan(LONGEST_TURN_MS);
  expect(summary.targets.map((each: { evaluators: { mean: number }[] }) => each.evaluators[0]?.mean)).toEqual([1, 0]);
});

test("S3: an experiment begins after its POST is answered", async () => {
  const app = open({ loops: ["experiments.run"] });
  const dataset = await newDataset(app, recorded(200));
  const evaluators = await newEvaluators(app, 1);
  const { body } = await app.call("POST", "/v1/experiments", { dataset, targets, evaluators });
  const { progress } = (await app.call("GET", `/v1/experiments/${body.id}`)).body;
  expect(progress.done).toBeLessThan(progress.total / 2);
});
