import { afterEach, expect, test } from "bun:test";
import { atEveryFailpoint, manyApps, type TestApp } from "../../../../test/harness.ts";
import { deployment, monitoring, never, PATH } from "../../../../test/monitors_kit.ts";
import { durable } from "../../../platform/db/db.ts";
import { flush } from "../traces/flush.ts";
import * as traces from "../traces/service.ts";
import { traceScores } from "../traces/table.ts";
import { scoreTraffic } from "./online.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const CHECK = { name: "polite", kind: "string_check", config: { operation: "contains", value: "please" } };

const DRIFT = { metric: "score_psi", score: "polite", thresholds: { alert: 1 } };

type Answer = { output: unknown; status?: number; capture?: "none" | "full" };
function answer(app: TestApp, deploymentId: string, answers: readonly Answer[]) {
  for (const { output, status = 200, capture = "full" } of answers)
    traces.record(app.ctx, {
      workspaceId: app.workspaceA,
      source: "chat",
      deploymentId,
      status,
      capture,
      spans: [],
      startedAt: app.ctx.clock.now(),
      durationMs: 1,
      content: () => ({ input: [{ role: "user", content: "hi" }], output }),
    });
  flush(app.ctx);
}
const said = (content: string): Answer => ({ output: [{ role: "assistant", content }] });
const scoresOf = (app: TestApp) =>
  app.ctx.db
    .select()
    .from(traceScores)
    .all()
    .map(({ name, value, source }) => [name, value, source]);

async function started(sample_percent = 100) {
  const kit = monitoring(open);
  const { app, clock, create } = kit;
  const deployment_id = await deployment(app);
  expect((await app.call("POST", "/v1/evaluators", CHECK)).status).toBe(201);
  const online_evaluation = { evaluator: "polite", sample_percent };
  const rule = { metric: "score_mean", score: "polite", deployment_id, thresholds: { alert: 0.5 }, online_evaluation };
  const made = await create(rule);
  const turn = async () => {
    clock.advance(1_000);
    await scoreTraffic(app.ctx, never);
  };
  return { ...kit, made, deployment_id, turn };
}

test("captured answers get a score once, and the monitor judges their mean", async () => {
  const { app, made, deployment_id, turn, evaluate, get } = await started();
  expect(made.online_evaluation).toEqual({ evaluator: "polite", sample_percent: 100 });
  answer(app, deployment_id, [
    said("yes please"),
    said("no"),
    {
      output: [
        {
          role: "assistant",
          content: [
            { type: "text", text: "no, " },
            { type: "text", text: "thanks" },
          ],
        },
      ],
    },
    { output: ["plain please"] },
  ]);
  await turn();
  const expected = [1, 0, 0, 1].map((value) => ["polite", value, "code"]);
  expect(scoresOf(app)).toEqual(expected);
  await turn();
  expect(scoresOf(app)).toEqual(expected);
  await evaluate();
  expect(await get(made.id)).toMatchObject({ value: 0.5, samples: 4, severity: "ok" });
  answer(app, deployment_id, [said("no")]);
  await turn();
  await evaluate();
  expect(await get(made.id)).toMatchObject({ value: 0.4, samples: 5, severity: "alert" });
});

test("requests without captured words are passed over, and so is traffic from before the monitor", async () => {
  const { app, made, deployment_id, turn } = await started();
  answer(app, deployment_id, [
    { ...said("please"), capture: "none" },
    { output: null, status: 500 },
  ]);
  answer(app, deployment_id, [{ output: [{ role: "assistant", content: null, tool_calls: [] }] }]);
  answer(app, await deployment(app, "other"), [said("please")]);
  await turn();
  expect(scoresOf(app)).toEqual([]);
  const off = await app.call("PATCH", `${PATH}/${made.id}`, { online_evaluation: null });
  expect(off.body.online_evaluation).toBeNull();
  answer(app, deployment_id, [said("please")]);
  await turn();
  const on = { online_evaluation: { evaluator: "polite@1", sample_percent: 100 } };
  expect((await app.call("PATCH", `${PATH}/${made.id}`, on)).status).toBe(200);
  await turn();
  expect(scoresOf(app)).toEqual([]);
});

test("a share of the traffic is sampled, and more than one evaluation can take follows in the same turn", async () => {
  const some = await started(10);
  answer(
    some.app,
    some.deployment_id,
    Array.from({ length: 500 }, () => said("please")),
  );
  await some.turn();
  expect(scoresOf(some.app).length).toBeGreaterThan(10);
  expect(scoresOf(some.app).length).toBeLessThan(150);
  const all = await started();
  for (let i = 0; i < 3; i++) {
    answer(
      all.app,
      all.deployment_id,
      Array.from({ length: 60 }, () => said("please")),
    );
    all.clock.advance(10);
  }
  await all.turn();
  expect(scoresOf(all.app).length).toBe(180);
});

test("no answer is scored twice: not by a second monitor of the score, and not after the clock was set back", async () => {
  const { app, clock, deployment_id, turn, create } = await started();
  const online_evaluation = { evaluator: "polite@1", sample_percent: 100 };
  await create({ ...DRIFT, deployment_id, name: "second", online_evaluation });
  answer(app, deployment_id, [said("please"), said("no")]);
  const expected = [1, 0].map((value) => ["polite", value, "code"]);
  await turn();
  expect(scoresOf(app)).toEqual(expected);
  clock.set(-3_600_000);
  await turn();
  answer(app, deployment_id, [said("please, later")]);
  clock.advance(3_700_000);
  await turn();
  expect(scoresOf(app)).toEqual([...expected, ["polite", 1, "code"]]);
});

test("an evaluator must exist when it is named; one that was deleted later stops nothing", async () => {
  const { app, made, deployment_id, turn, create } = await started();
  const online_evaluation = { evaluator: "none", sample_percent: 1 };
  const refused = await app.call("PATCH", `${PATH}/${made.id}`, { online_evaluation });
  expect([refused.status, refused.body.error.param]).toEqual([404, "/online_evaluation/evaluator"]);
  await app.call("POST", "/v1/evaluators", { ...CHECK, name: "other" });
  const other = { metric: "score_mean", score: "other", deployment_id, thresholds: { alert: 0 } };
  await create({ ...other, name: "n", online_evaluation: { evaluator: "other", sample_percent: 100 } });
  await app.call("DELETE", "/v1/evaluators/polite@1");
  answer(app, deployment_id, [said("please")]);
  await turn();
  expect(scoresOf(app)).toEqual([["other", 1, "code"]]);
  expect(app.log.join("\n")).toContain("an online evaluation failed");
});

test("a kill at any point of an online evaluation leaves one score for one answer", async () => {
  await atEveryFailpoint(async (attempt) => {
    const { app, clock, deployment_id, turn } = await started();
    answer(app, deployment_id, [said("please")]);
    await durable(app.ctx.db);
    await attempt(turn);
    await app.close().catch(() => {});
    const again = open({ clock, dir: app.dir });
    clock.advance(1_000);
    await scoreTraffic(again.ctx, never);
    expect(scoresOf(again)).toEqual([["polite", 1, "code"]]);
  });
});
