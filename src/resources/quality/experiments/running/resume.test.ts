import { afterEach, expect, test } from "bun:test";
import { fakePorts, newDataset, newDeployment, runAll, solve, sums } from "../../../../../test/experiments_kit.ts";
import { eventsOf } from "../../../../../test/fake_replicas.ts";
import { atEveryFailpoint, manyApps, type TestApp, until } from "../../../../../test/harness.ts";
import { durable } from "../../../../platform/db/db.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const PATH = "/v1/experiments";
const create = async (app: TestApp, more: object = {}) => {
  const targets = ["base", "tuned"].map((name) => ({ type: "deployment", deployment: name }));
  const dataset = await newDataset(app, sums(3));
  for (const name of ["base", "tuned"]) await newDeployment(app, name);
  const body = { dataset, targets, evaluators: ["accuracy", "brevity"], concurrency: 2, ...more };
  return (await app.call("POST", PATH, body)).body.id as string;
};
/** Each answer waits for the disk, so that every item is a commit of its own. */
const answering = (app: TestApp) =>
  fakePorts(app, {
    async answer(_id, prompt) {
      await durable(app.ctx.db).catch(() => {}); // the crash
      return solve(prompt);
    },
  });
const count = (app: TestApp, sql: string) => (app.ctx.db.$client.query(sql).get() as { n: number }).n;

test("wherever it crashes, every item has one result and the end is reported once", async () => {
  const crashes = await atEveryFailpoint(async (attempt) => {
    const first = open();
    answering(first);
    const id = await create(first);
    await durable(first.ctx.db);
    await attempt(async () => {
      await runAll(first);
      await durable(first.ctx.db);
    });
    const after = open({ dir: first.dir });
    answering(after);
    await runAll(after);
    const { body } = await after.call("GET", `${PATH}/${id}`);
    expect(body).toMatchObject({ status: "completed", progress: { total: 6, done: 6, failed: 0 } });
    expect(count(after, "SELECT count(*) AS n FROM experiment_items WHERE finished_at IS NOT NULL")).toBe(6);
    expect(count(after, "SELECT count(*) AS n FROM experiment_scores")).toBe(12);
    expect(eventsOf(after, id).filter((type) => type === "experiment.completed")).toHaveLength(1);
    await closeAll();
  });
  expect(crashes).toBeGreaterThan(12);
});

test("an answer that was stored before the end of the server is scored, not generated again", async () => {
  const first = open();
  const scoring = Promise.withResolvers<never>();
  const waiting = fakePorts(first, { answer: (_id, prompt) => solve(prompt) });
  const { ports } = first.ctx.state.experiments;
  first.ctx.state.experiments.ports = { ...ports, evaluate: () => scoring.promise };
  const id = await create(first, { concurrency: 1 });
  const stop = new AbortController();
  const running = runAll(first, stop.signal);
  await until("the answers of the baseline", () => count(first, ITEMS) === 3);
  stop.abort();
  scoring.reject(new Error("the server ends"));
  await running;
  await durable(first.ctx.db);
  const after = open({ dir: first.dir });
  const calls = answering(after);
  await runAll(after);
  expect((await after.call("GET", `${PATH}/${id}`)).body.status).toBe("completed");
  expect(calls.generated).toHaveLength(3);
  for (const call of waiting.generated) expect(calls.generated).not.toContainEqual(call);
});
const ITEMS = "SELECT count(*) AS n FROM experiment_items";

test("an experiment that comes while another runs begins at once in another workspace, and waits in the same", async () => {
  const app = open();
  const gate = Promise.withResolvers<void>();
  fakePorts(app, {
    async answer() {
      await gate.promise;
      return "x";
    },
  });
  const outputs = async (key: string) => {
    const made = await app.call("POST", "/v1/datasets", { name: "held", format: "completion" }, { key });
    await app.call("POST", `/v1/datasets/${made.body.id}/rows`, { rows: sums(1) }, { key });
    const targets = [{ type: "outputs", field: "completion" }];
    return (await app.call("POST", PATH, { dataset: made.body.id, targets, evaluators: ["a"] }, { key })).body.id;
  };
  const statusOf = async (id: string, key: string) =>
    (await app.call("GET", `${PATH}/${id}`, undefined, { key })).body.status;
  const first = await create(app);
  const running = runAll(app);
  await until("it to run", async () => (await statusOf(first, app.keyA)) === "running");
  const [same, other] = [await outputs(app.keyA), await outputs(app.keyB)];
  await until("the other workspace's", async () => (await statusOf(other, app.keyB)) === "completed");
  expect(await statusOf(same, app.keyA)).toBe("queued");
  gate.resolve();
  await running;
  expect(await statusOf(same, app.keyA)).toBe("completed");
});
