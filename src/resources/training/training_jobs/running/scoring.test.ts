import { afterEach, expect, test } from "bun:test";
import { fakeRewards } from "../../../../../test/fake_rewards.ts";
import { manyApps } from "../../../../../test/harness.ts";
import { chatAnswer, pretendServing } from "../../../../../test/pretend_replica.ts";
import { evaluatorReward } from "../../../quality/evaluators/reward.ts";
import type { Rewards } from "../table.ts";
import { scoringFor } from "./scoring.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const NONE: Rewards = { source: null, language: null, functions: [], parts: [] };
const code = { language: "python" as const, source: "def reward(completions): ...", params: {}, seed: 1 };

/** A judge whose score is the first digit of the answer. An answer without a digit makes it talk nonsense. */
async function judged() {
  const app = open({ parts: ["models"] });
  const pool = fakeRewards(app);
  const { body } = await app.call("POST", "/v1/deployments", { model: "verk-tiny", name: "d" });
  pretendServing(app, body.id, {
    parallel: 4,
    answer: (_path, { messages }: { messages: { content: string }[] }) => {
      const [, digit] = /<answer>\n[^\d\n]*(\d)/.exec(messages.at(-1)?.content ?? "") ?? [];
      return chatAnswer(digit === undefined ? "Well, that depends." : `{"score":${digit}}`);
    },
  });
  const config = { deployment: "d", rubric: "r", explain: false, scale: { min: 0, max: 9 } };
  const made = await app.call("POST", "/v1/evaluators", { name: "judge", kind: "llm_judge", config });
  const reward = (weight: number) => {
    const found = evaluatorReward(app.ctx, app.workspaceA, { id: made.body.id, weight, params: {}, seed: 1, at: "/r" });
    if ("code" in found) throw new Error("a judge is not code");
    return found;
  };
  const score = async (rewards: Partial<Rewards>, completions: string[]) => {
    const scoring = scoringFor(app.ctx, { id: "job_1", workspaceId: app.workspaceA, rewards: { ...NONE, ...rewards } });
    const samples = completions.map((completion) => ({ prompt: "p", completion, row: '{"prompt":"p","answer":7}' }));
    scoring.begin();
    const answer = await scoring.answer({ type: "score", id: 1, step: 1, samples });
    await scoring.close();
    if (answer?.type !== "scored") throw new Error(answer?.type === "unscored" ? answer.message : "no answer");
    return answer.results;
  };
  return { app, pool, reward, score };
}

test("a judge is the only reward of a job: no process is started, and nonsense is no reward", async () => {
  const { pool, reward, score } = await judged();
  const results = await score({ evaluators: [reward(0.5)] }, ["4", "none", "x8"]);
  const weights = { judge: 0.5 };
  const nonsense = expect.stringContaining("judge: The judge's answer is not");
  expect(results).toEqual([
    { reward: 2, sub_rewards: { judge: 4 }, weights, error: null },
    { reward: null, sub_rewards: { judge: null }, weights, error: nonsense },
    { reward: 4, sub_rewards: { judge: 8 }, weights, error: null },
  ]);
  expect(pool.taken).toBe(0);
});

test("a judge and code are added by their weights, and names that are equal are told apart", async () => {
  const { pool, reward, score } = await judged();
  const parts = [{ name: "judge", code, weight: 1 }];
  const results = await score({ parts, evaluators: [reward(2), reward(1)] }, ["42", "none"]);
  expect(results).toMatchObject([
    {
      reward: 2 + 2 * 4 + 4,
      sub_rewards: { judge: 2, "judge#2": 4, "judge#3": 4 },
      weights: { "judge#2": 2, "judge#3": 1 },
    },
    { reward: null, sub_rewards: { judge: 4, "judge#2": null } },
  ]);
  expect([pool.taken, pool.open]).toEqual([1, 0]);
});
