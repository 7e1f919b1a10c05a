import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  type Calls,
  fakePorts,
  newDataset,
  newDeployment,
  runAll,
  solve,
  sums,
} from "../../../../test/experiments_kit.ts";
import { eventsOf } from "../../../../test/fake_replicas.ts";
import { type TestApp, testApp, until } from "../../../../test/harness.ts";
import { AppError } from "../../../lib/errors.ts";
import { sweep } from "./running/sweep.ts";
import { removeAll } from "./service.ts";

const PATH = "/v1/experiments";
let app: TestApp;
let [dataset, base, tuned] = ["", "", ""];
beforeEach(async () => {
  app = testApp();
  dataset = await newDataset(app, sums(6));
  [base, tuned] = [await newDeployment(app, "base"), await newDeployment(app, "tuned")];
});
afterEach(() => app.close().then(app.remove));

const deployed = (deployment: string) => ({ type: "deployment", deployment });
const request = (more: object = {}) => ({
  dataset,
  targets: [deployed("base"), deployed("tuned")],
  evaluators: ["accuracy"],
  ...more,
});
const create = async (more: object = {}) => {
  const { status, body } = await app.call("POST", PATH, request(more));
  expect([status, body]).toMatchObject([201, { status: "queued" }]);
  return body.id as string;
};
const get = async (path: string) => (await app.call("GET", `${PATH}/${path}`)).body;
/** `tuned` solves every row, `base` the first half of them. */
const halfRight = (): Calls =>
  fakePorts(app, { answer: (id, prompt) => (id === tuned || Number.parseInt(prompt, 10) < 3 ? solve(prompt) : "?") });

describe("an experiment", () => {
  test("runs every row on every target, the baseline first, and ends with figures", async () => {
    const calls = halfRight();
    const id = await create();
    await runAll(app);
    const done = await get(id);
    expect(done).toMatchObject({ status: "completed", snapshot: "@snap-1", row_count: 6, baseline: "base" });
    expect(done.progress).toEqual({ total: 12, done: 12, failed: 0 });
    expect(calls.generated.map(([target]) => target)).toEqual([...Array(6).fill(base), ...Array(6).fill(tuned)]);
    const summary = await get(`${id}/summary`);
    expect(summary.targets.map((each: { evaluators: { mean: number }[] }) => each.evaluators[0]?.mean)).toEqual([
      0.5, 1,
    ]);
    expect(summary.targets[1].evaluators[0].comparison).toMatchObject({ pairs: 6, wins: 3, losses: 0, p_value: 0.25 });
    expect(eventsOf(app, id)).toEqual(["experiment.created", "experiment.completed"]);
  });

  test("keeps the snapshot: rows that come later are not run, and the dataset cannot be deleted", async () => {
    fakePorts(app);
    const id = await create();
    await app.call("POST", `/v1/datasets/${dataset}/rows`, { rows: sums(1) });
    const refused = await app.call("DELETE", `/v1/datasets/${dataset}`);
    expect([refused.status, refused.body.error.message]).toEqual([400, expect.stringContaining(`experiment ${id}`)]);
    await sweep(app.ctx);
    expect((await app.call("DELETE", `/v1/datasets/${dataset}`)).status).toBe(400);
    await runAll(app);
    expect((await get(id)).progress.total).toBe(12);
    expect((await app.call("DELETE", `/v1/datasets/${dataset}`)).status).toBe(200);
    expect((await get(`${id}/items`)).data[0]).toMatchObject({
      input: expect.any(String),
      reference: expect.any(String),
    });
  });

  test("lists regressions item by item, with both answers", async () => {
    halfRight();
    const id = await create({ baseline: "tuned" });
    await runAll(app);
    const { data } = await get(`${id}/items?regression=true`);
    expect(data).toHaveLength(3);
    expect(data[0]).toMatchObject({
      target: "base",
      regression: true,
      output: "?",
      baseline_output: data[0].reference,
    });
    expect(data[0].scores.accuracy).toMatchObject({ score: 0, baseline_score: 1, regression: true, passed: false });
    expect((await get(`${id}/items?regression=false&limit=100`)).data).toHaveLength(9);
    expect((await get(`${id}/items?target=tuned&regression=true`)).data).toEqual([]);
    const paged = await get(`${id}/items?target=base&limit=4`);
    expect([paged.data.length, paged.has_more]).toEqual([4, true]);
    expect((await get(`${id}/items?target=base&limit=4&after=${paged.data.at(-1).id}`)).data).toHaveLength(2);
    expect((await app.call("GET", `${PATH}/${id}/items?target=other`)).status).toBe(400);
  });

  test("compares recorded outputs without a deployment", async () => {
    const calls = fakePorts(app);
    dataset = await newDataset(
      app,
      sums(3).map((row, i) => ({ ...row, old: i === 0 ? "no" : row.completion })),
    );
    const id = await create({
      targets: [
        { type: "outputs", field: "old" },
        { type: "outputs", field: "completion" },
      ],
    });
    await runAll(app);
    expect(calls.generated).toEqual([]);
    expect((await get(`${id}/summary`)).targets[0].evaluators[0].mean).toBeCloseTo(2 / 3);
    expect((await get(`${id}/items`)).data[0]).toMatchObject({ latency_ms: null, prompt_tokens: null });
  });

  test("runs the first rows only with max_rows", async () => {
    fakePorts(app);
    const id = await create({ max_rows: 2 });
    await runAll(app);
    expect(await get(id)).toMatchObject({ row_count: 2, progress: { total: 4, done: 4 } });
  });

  test("gives a pairwise evaluator the answer of the baseline; the baseline ties with itself", async () => {
    const seen: unknown[] = [];
    fakePorts(app, {
      answer: (id) => (id === base ? "b" : "t"),
      score: ({ output, other }) => {
        seen.push([output, other]);
        return 1;
      },
    });
    const id = await create({ evaluators: ["pairwise"] });
    await runAll(app);
    expect(seen).toEqual(Array(6).fill(["t", "b"]));
    const { targets, winners } = await get(`${id}/summary`);
    expect(targets[0].evaluators[0]).toMatchObject({ scored: 6, mean: 0.5 });
    expect([targets[1].evaluators[0].comparison.significant, winners.pairwise]).toEqual([true, "tuned"]);
  });

  test("keeps at most `concurrency` items under way", async () => {
    let [now, most] = [0, 0];
    fakePorts(app, {
      async answer() {
        most = Math.max(most, ++now);
        await new Promise(setImmediate);
        now--;
        return "x";
      },
    });
    await create({ concurrency: 2 });
    await runAll(app);
    expect(most).toBe(2);
  });
});

describe("a fault", () => {
  test("of one row is the error of its item; the others go on", async () => {
    fakePorts(app, {
      answer(_id, prompt) {
        if (prompt.startsWith("2")) throw new AppError("context_length_exceeded", "too long");
        return solve(prompt);
      },
    });
    const id = await create();
    await runAll(app);
    expect(await get(id)).toMatchObject({ status: "completed", progress: { total: 12, done: 12, failed: 2 } });
    const failed = (await get(`${id}/items?target=base&limit=100`)).data.filter(
      (each: { error: unknown }) => each.error,
    );
    expect(failed).toMatchObject([
      { error: "too long", error_code: "context_length_exceeded", output: null, scores: {} },
    ]);
  });

  test("of the target fails the experiment with its reason", async () => {
    fakePorts(app, {
      answer: (id) => {
        if (id === tuned) throw new AppError("unsupported_state", "Deployment tuned is stopped");
        return "x";
      },
    });
    const id = await create();
    await runAll(app);
    expect(await get(id)).toMatchObject({ status: "failed", error: "tuned: Deployment tuned is stopped" });
    expect(eventsOf(app, id).at(-1)).toBe("experiment.failed");
    expect((await get(`${id}/summary`)).targets[0].items).toBe(6);
  });

  test("that passes is tried again, and no item is lost", async () => {
    const failed = new Set<string>();
    fakePorts(app, {
      answer(id, prompt) {
        const key = `${id} ${prompt}`;
        if (failed.has(key)) return solve(prompt);
        failed.add(key);
        throw new AppError("worker_failed", "lost");
      },
    });
    const id = await create({ max_rows: 1 });
    await runAll(app);
    expect(await get(id)).toMatchObject({ status: "completed", progress: { done: 2, failed: 0 } });
  });

  test("of every item of a target fails the experiment", async () => {
    fakePorts(app);
    const id = await create({ targets: [{ type: "outputs", field: "nothing" }] });
    await runAll(app);
    expect(await get(id)).toMatchObject({ status: "failed", error_code: "all_items_failed" });
  });

  test("of an evaluator leaves the item without a score, counted", async () => {
    fakePorts(app, { score: ({ input }) => (input === "0 + 1" ? null : 1) });
    const id = await create();
    await runAll(app);
    const [figures] = (await get(`${id}/summary`)).targets[0].evaluators;
    expect(figures).toMatchObject({ scored: 5, unscored: 1, mean: 1 });
  });
});

describe("its end", () => {
  test("by a cancel comes at once, keeps what is done and takes no late result", async () => {
    const gate = Promise.withResolvers<void>();
    const calls = fakePorts(app, {
      async answer(_id, prompt) {
        if (!prompt.startsWith("0")) await gate.promise;
        return solve(prompt);
      },
    });
    const id = await create({ concurrency: 2 });
    const running = runAll(app);
    await until("the first item to end", async () => (await get(id)).progress.done === 1);
    const { body } = await app.call("POST", `${PATH}/${id}/cancel`);
    expect(body).toMatchObject({ status: "cancelled", finished_at: expect.any(String) });
    gate.resolve();
    await running;
    expect(await get(id)).toMatchObject({ status: "cancelled", progress: { done: 1 } });
    expect((await get(`${id}/items`)).data).toHaveLength(1);
    expect(calls.generated.length).toBeLessThan(6);
    expect((await app.call("POST", `${PATH}/${id}/cancel`)).status).toBe(200);
    expect(eventsOf(app, id).filter((type) => type === "experiment.cancelled")).toHaveLength(1);
  });

  test("is needed before it can be deleted; then its results go too", async () => {
    fakePorts(app);
    const id = await create();
    expect((await app.call("DELETE", `${PATH}/${id}`)).body.error.message).toContain("cancel it first");
    await runAll(app);
    expect((await app.call("POST", `${PATH}/${id}/cancel`)).status).toBe(400);
    expect((await app.call("DELETE", `${PATH}/${id}`)).body).toEqual({ id, object: "experiment", deleted: true });
    expect((await app.call("GET", `${PATH}/${id}`)).status).toBe(404);
    await sweep(app.ctx);
    const left = (table: string) => app.ctx.db.$client.query(`SELECT count(*) AS n FROM ${table}`).get();
    expect([left("experiment_items"), left("experiment_scores")]).toEqual([{ n: 0 }, { n: 0 }]);
  });
});

test("a deleted workspace ends its experiments and loses them", async () => {
  fakePorts(app);
  const id = await create();
  removeAll(app.ctx, app.workspaceB);
  expect((await get(id)).status).toBe("queued");
  removeAll(app.ctx, app.workspaceA);
  expect((await app.call("GET", `${PATH}/${id}`)).status).toBe(404);
  expect(eventsOf(app, id)).toEqual(["experiment.created", "experiment.cancelled", "experiment.deleted"]);
});
