import { afterAll, beforeAll, expect, test } from "bun:test";
import { type JobsApp, jobsApp } from "../../../../../test/jobs_kit.ts";
import { write } from "../../../../platform/db/db.ts";
import { trainingMetrics, trainingSamples } from "../table.ts";

let app: JobsApp;
let id: string;
const STEPS = 2500;
const SPIKE = 1234;
beforeAll(async () => {
  app = await jobsApp();
  id = await app.job();
  write(app.ctx.db, (tx) => {
    for (let step = 1; step <= STEPS; step++) {
      const values = { loss: step === SPIKE ? 99 : 1 / step, ...(step % 2 ? { "rewards/a,b/mean": step } : {}) };
      tx.insert(trainingMetrics)
        .values({ jobId: id, step, epoch: step / 1000, time: step, values })
        .run();
    }
    for (const step of [3, 7])
      for (let number = 0; number < 5; number++)
        tx.insert(trainingSamples)
          .values({
            jobId: id,
            step,
            number,
            prompt: [{ role: "user", content: "hi" }],
            completion: `c${number}`,
            reward: number === 4 ? null : number,
            subRewards: { a: null },
            advantage: null,
            tokens: 3,
            truncated: false,
            error: number === 4 ? "timeout" : null,
          })
          .run();
  });
}, 60_000);
afterAll(() => app.close().then(app.remove));
const get = async (path: string) => await app.call("GET", `/v1/training_jobs/${id}/${path}`);
type Point = { step: number; values: Record<string, number> };

test("conformance 21: max_points is the most points of an answer", async () => {
  for (const most of [1, 2, 3, 5, 50, 999])
    for (const keys of ["", "&keys=loss"]) {
      const { body } = await get(`metrics?max_points=${most}${keys}`);
      expect(body.data.length).toBeLessThanOrEqual(most);
      expect(body.data.length).toBeGreaterThanOrEqual(Math.min(most, most / 2));
    }
});

test("a long series is thinned, and its spike survives", async () => {
  const { body } = await get("metrics?max_points=50");
  expect(body).toMatchObject({ object: "training_job.metrics", job_id: id, total_points: STEPS, sampled: true });
  expect(body.keys).toEqual(["loss", "rewards/a,b/mean"]);
  const losses = (body.data as Point[]).filter(({ values }) => values["loss"] !== undefined);
  expect(losses.length).toBeLessThanOrEqual(50);
  expect(Math.max(...losses.map(({ values }) => values["loss"] ?? 0))).toBe(99);
  expect([losses[0]?.step, losses.at(-1)?.step]).toEqual([1, STEPS]);
});

test("keys and steps can be chosen, and a high max_points returns all points", async () => {
  const { body } = await get("metrics?keys=loss,nope&from_step=10&to_step=12");
  expect(body).toMatchObject({ keys: ["loss"], total_points: 3, sampled: false });
  expect(body.data).toEqual([
    { step: 10, epoch: 0.01, time: "1970-01-01T00:00:00.010Z", values: { loss: 0.1 } },
    { step: 11, epoch: 0.011, time: "1970-01-01T00:00:00.011Z", values: { loss: 1 / 11 } },
    { step: 12, epoch: 0.012, time: "1970-01-01T00:00:00.012Z", values: { loss: 1 / 12 } },
  ]);
  expect((await get("metrics?max_points=100000")).body.data).toHaveLength(STEPS);
  const none = (await app.call("GET", `/v1/training_jobs/${await app.job()}/metrics`)).body;
  expect(none).toMatchObject({ keys: [], total_points: 0, sampled: false, data: [] });
});

test("as CSV each key is a column, and a missing value is empty", async () => {
  const { body, headers } = await get("metrics?format=csv&from_step=1&to_step=2");
  expect(headers.get("content-type")).toStartWith("text/csv");
  expect(body.split("\r\n")).toEqual([
    'step,epoch,time,loss,"rewards/a,b/mean"',
    "1,0.001,1970-01-01T00:00:00.001Z,1,1",
    "2,0.002,1970-01-01T00:00:00.002Z,0.5,",
    "",
  ]);
});

test.each(["max_points=0", "from_step=-1", "to_step=x", "format=xml"])(
  "metrics?%s is refused by name",
  async (query) => {
    const { status, body } = await get(`metrics?${query}`);
    expect([status, body.error.param]).toEqual([422, query.split("=")[0]]);
  },
);

test("samples are of the latest step by default, a page at a time", async () => {
  const latest = (await get("samples")).body;
  expect(latest.data.map((each: { step: number; number: number }) => [each.step, each.number])).toEqual(
    [0, 1, 2, 3, 4].map((number) => [7, number]),
  );
  expect(latest.data[4]).toMatchObject({
    object: "training_job.sample",
    job_id: id,
    prompt: [{ role: "user", content: "hi" }],
    completion: "c4",
    reward: null,
    sub_rewards: { a: null },
    error: "timeout",
  });
  const first = (await get("samples?step=3&limit=2")).body;
  expect([first.has_more, first.data[1].id]).toEqual([true, "3-1"]);
  const rest = (await get("samples?step=3&limit=3&after=3-1")).body;
  expect([rest.has_more, rest.data.map((each: { id: string }) => each.id)]).toEqual([false, ["3-2", "3-3", "3-4"]]);
  expect((await get("samples?after=3-3")).body.data.map((each: { id: string }) => each.id)).toEqual(["3-4"]);
  expect((await get("samples?step=7&after=3-1")).body.error.code).toBe("invalid_cursor");
  expect((await get("samples?after=nope")).body.error.code).toBe("invalid_cursor");
  expect((await get("samples?step=5")).body.data).toEqual([]);
});

test("only checkpoints with files are listed, the best one marked", async () => {
  const [first, best] = [app.checkpoint(id, 10), app.checkpoint(id, 20)];
  app.checkpoint(id, 5, { deletedAt: 1 });
  app.moves(id, ["provision"], { bestCheckpointId: best });
  const { body } = await get("checkpoints");
  expect(body.data).toMatchObject([
    { object: "training_job.checkpoint", id: best, job_id: id, step: 20, size_bytes: 10, is_best: true },
    { id: first, step: 10, is_best: false },
  ]);
  expect((await app.get(id)).best_checkpoint_id).toBe(best);
});

test("events are a list, newest first, that can be paged", async () => {
  await app.call("POST", `/v1/training_jobs/${id}/pause`);
  const { body } = await get("events?limit=1");
  expect(body).toMatchObject({ has_more: true, data: [{ type: "job.paused", level: "info", data: {} }] });
  expect((await get(`events?after=${body.data[0].id}`)).body.data.map((e: { type: string }) => e.type)).toEqual([
    "job.created",
  ]);
});

test("earlier answers to the same prompt are found by the index, newest first", async () => {
  const job = await app.job();
  const system = "You are a calculator. ".repeat(20);
  const chat = (question: string) => [
    { role: "system", content: system },
    { role: "user", content: question },
  ];
  const insert = (step: number, number: number, prompt: unknown) =>
    write(app.ctx.db, (tx) =>
      tx
        .insert(trainingSamples)
        .values({
          jobId: job,
          step,
          number,
          prompt,
          completion: `${step}`,
          reward: 1,
          subRewards: {},
          advantage: null,
          tokens: 1,
          truncated: false,
          error: null,
        })
        .run(),
    );
  const [a, b] = [chat("2 + 3"), chat("2 + 4")];
  for (const step of [1, 5, 900]) for (const number of [0, 1]) insert(step, number, a);
  for (const step of [2, 901]) insert(step, 0, b);
  insert(901, 1, `${JSON.stringify(a).slice(0, -1)}`); // a text that begins like the chat
  const ids = async (query: string) => {
    const { body } = await app.call("GET", `/v1/training_jobs/${job}/samples?${query}`);
    return [body.data.map((each: { id: string }) => each.id), body.has_more];
  };
  expect(await ids("earlier_than=900-1")).toEqual([["5-1", "5-0", "1-1", "1-0"], false]);
  expect(await ids("earlier_than=900-1&limit=3")).toEqual([["5-1", "5-0", "1-1"], true]);
  expect(await ids("earlier_than=900-1&limit=3&after=5-0")).toEqual([["1-1", "1-0"], false]);
  expect(await ids("earlier_than=900-1&step=1")).toEqual([["1-1", "1-0"], false]);
  expect(await ids("earlier_than=901-0")).toEqual([["2-0"], false]);
  for (const none of ["1-0", "901-1", "77-0"]) expect(await ids(`earlier_than=${none}`)).toEqual([[], false]);
  const wrong = await app.call("GET", `/v1/training_jobs/${job}/samples?earlier_than=x`);
  expect([wrong.status, wrong.body.error.param]).toEqual([422, "earlier_than"]);
  expect((await app.call("GET", `/v1/training_jobs/${job}/samples?earlier_than=5-0&after=x`)).body.error.code).toBe(
    "invalid_cursor",
  );
  const plan = app.ctx.db.$client
    .query(
      `explain query plan select step, number from training_samples where job_id = 'x' and length(prompt) = length('p')
       and substr(prompt, -64) = substr('p', -64) and step < 9 order by step desc, number desc limit 10`,
    )
    .all() as { detail: string }[];
  expect(plan.map(({ detail }) => detail).join()).toContain("USING COVERING INDEX training_samples_prompt");
  expect(plan.map(({ detail }) => detail).join()).not.toContain("TEMP B-TREE");
});
