import { afterAll, beforeAll, expect, test } from "bun:test";
import { jobsApp } from "../../../../../test/jobs_kit.ts";
import { currentJob } from "../state/rows.ts";

let app: Awaited<ReturnType<typeof jobsApp>>;
beforeAll(async () => {
  app = await jobsApp();
}, 60_000);
afterAll(() => app.close().then(app.remove));

const evaluator = async (name: string, kind: string, config: object): Promise<string> =>
  (await app.call("POST", "/v1/evaluators", { name, kind, config })).body.id;
const check = () => evaluator("check", "string_check", { operation: "contains", value: "2" });
const NO_SOURCE = { reward_source: null };

test("a job takes an evaluator by its id: a copy of its settings, or its code for the sandbox", async () => {
  const [id, code] = [await check(), await evaluator("own", "code", { source: "def reward(completions): ..." })];
  const refs = [{ id, weight: 0.5 }, { id: code }];
  const { status, body } = await app.post({ ...NO_SOURCE, reward_functions: refs });
  expect([status, body.reward_functions]).toEqual([
    201,
    [
      { id, weight: 0.5, params: {} },
      { id: code, weight: 1, params: {} },
    ],
  ]);
  const rewards = currentJob(app.ctx.db, body.id)?.rewards;
  expect(rewards?.parts).toMatchObject([{ name: "own", weight: 1, code: { language: "python" } }]);
  expect(rewards?.evaluators).toMatchObject([{ weight: 0.5, evaluator: { id, name: "check", kind: "string_check" } }]);
  const clone = await app.call("POST", "/v1/training_jobs", { source_job: body.id });
  expect(clone.body.reward_functions).toEqual(body.reward_functions);
  expect(clone.body.lock.reward_sha256).toBe(body.lock.reward_sha256);
});

test("an evaluator that does not exist, or has params, is refused with a pointer to its entry", async () => {
  const id = await check();
  const refused = async (ref: object) => {
    const { status, body } = await app.post({ reward_functions: [{ id: "exact_match" }, ref] });
    return [status, body.error?.param];
  };
  expect(await refused({ id: `evl_${"0".repeat(26)}` })).toEqual([404, "/reward_functions/1/id"]);
  expect(await refused({ id, params: { a: 1 } })).toEqual([422, "/reward_functions/1/params"]);
  const { body } = await app.post({ ...NO_SOURCE, reward_functions: [{ id, weight: 0 }] });
  expect(body.error.message).toContain("weight other than 0");
});
