import { afterEach, expect, test } from "bun:test";
import { fakePorts, newDataset, newDeployment, runAll, solve, sums } from "../../../../../test/experiments_kit.ts";
import { manyApps, until } from "../../../../../test/harness.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

test("answers that come while an evaluator works are scored together, 16 at most", async () => {
  const app = open();
  const { generated } = fakePorts(app, { answer: (_id, prompt) => solve(prompt) });
  const { ports } = app.ctx.state.experiments;
  const batches: number[] = [];
  app.ctx.state.experiments.ports = {
    ...ports,
    async evaluate(ctx, workspaceId, evaluator, items, signal) {
      batches.push(items.length);
      await until("every answer", () => generated.length === 20);
      return ports.evaluate(ctx, workspaceId, evaluator, items, signal);
    },
  };
  const targets = [{ type: "deployment", deployment: await newDeployment(app, "base") }];
  const body = { dataset: await newDataset(app, sums(20)), targets, evaluators: ["accuracy"], concurrency: 1 };
  const { id } = (await app.call("POST", "/v1/experiments", body)).body;
  await runAll(app);
  const done = (await app.call("GET", `/v1/experiments/${id}`)).body;
  expect(done).toMatchObject({ status: "completed", progress: { total: 20, done: 20, failed: 0 } });
  expect(batches).toEqual([1, 16, 3]);
});
