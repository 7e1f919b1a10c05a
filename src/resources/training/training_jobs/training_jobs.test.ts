import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { eventsOf } from "../../../../test/fake_replicas.ts";
import { fakeClock } from "../../../../test/harness.ts";
import { type JobsApp, jobsApp } from "../../../../test/jobs_kit.ts";
import { datasetPins } from "../../data/datasets/table.ts";
import { trainingJobs } from "./table.ts";

const PATH = "/v1/training_jobs";
let app: JobsApp;
let clock: ReturnType<typeof fakeClock>;
beforeAll(async () => {
  clock = fakeClock();
  app = await jobsApp({ clock });
}, 60_000);
beforeEach(() => {
  clock.advance(1);
  app.ctx.db.delete(trainingJobs).run();
  app.ctx.db.delete(datasetPins).run();
});
afterAll(() => app.close().then(app.remove));

const post = (path: string, key?: string) => app.call("POST", `${PATH}/${path}`, undefined, key ? { key } : {});
const pins = () => app.ctx.db.select().from(datasetPins).all();
const notes = async (id: string) =>
  (await app.call("GET", `${PATH}/${id}/events`)).body.data.map((each: { type: string }) => each.type).reverse();

test("a job is created queued, with everything resolved, its rows pinned, an event and a note", async () => {
  const answer = await app.post({ metadata: { a: "b" }, hyperparameters: { max_steps: 40 }, output_name: "mine" });
  expect(answer.status).toBe(201);
  const { body } = answer;
  expect(body).toMatchObject({
    object: "training_job",
    status: "queued",
    base_model: "random",
    method: "grpo",
    output_name: "mine",
    gpu_requested: { type: "cpu", count: 1 },
    gpu: null,
    dataset: { id: await app.dataset("prompt"), snapshot_id: "@snap-1", num_rows: 3 },
    provider: "local",
    progress: { step: 0, total_steps: 40, percent: 0, eta_seconds: null },
    checkpoint: { save_steps: 4, keep_last: 3 },
    lora: { r: 16, alpha: 32 },
    queue_position: 1,
    cost_usd: 0,
    error: null,
    metadata: { a: "b" },
  });
  expect(body.hyperparameters).toMatchObject({ learning_rate: 1e-5, num_generations: 8, generation_batch_size: 8 });
  expect(body.lock).toMatchObject({ seed: body.seed, base_model_sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
  expect(body.lock.snapshot_sha256).toHaveLength(64);
  expect(body.lock.reward_sha256).toHaveLength(64);
  expect(pins().map((pin) => pin.jobId)).toEqual([body.id]);
  expect(eventsOf(app, body.id)).toEqual(["job.created"]);
  expect(await notes(body.id)).toEqual(["job.created"]);
  expect(app.woken).toContain("training_jobs.reconcile");
  expect(await app.get(body.id)).toEqual(body);
});

test("all weights are trained with lora null, and the learning rate is lower", async () => {
  const { body } = await app.post({ lora: null, seed: 5 });
  expect([body.lora, body.hyperparameters.learning_rate, body.seed, body.lock.seed]).toEqual([null, 1e-6, 5, 5]);
});

test("the same Idempotency-Key makes one job, and credentials are no part of it", async () => {
  const headers = { "idempotency-key": "k1" };
  const first = await app.post({ seed: 1, credentials: { password: "one" } }, { headers });
  const again = await app.post({ seed: 1, credentials: { password: "two" } }, { headers });
  expect([first.status, again.status, again.headers.get("idempotent-replayed")]).toEqual([201, 201, "true"]);
  expect(again.body).toEqual(first.body);
  expect((await app.post({ seed: 2 }, { headers })).body.error.code).toBe("idempotency_mismatch");
  expect(app.ctx.db.select().from(trainingJobs).all()).toHaveLength(1);
  expect(pins()).toHaveLength(1);
  const both = await Promise.all([1, 2].map(() => app.post({ seed: 3 }, { headers: { "idempotency-key": "k2" } })));
  expect(both[0]?.body.id).toBe(both[1]?.body.id);
});

test("jobs are listed newest first, by status and method, a page at a time, without their code", async () => {
  const ids: string[] = [];
  for (let i = 0; i < 3; i++) {
    clock.advance(1);
    ids.unshift(await app.job());
  }
  const sft = await app.job({ method: "sft", reward_source: null, dataset: await app.dataset("chat") });
  const listed = async (query: string) => (await app.call("GET", `${PATH}${query}`)).body;
  expect((await listed("?method=grpo")).data.map((job: { id: string }) => job.id)).toEqual(ids);
  expect((await listed("?method=sft")).data[0]).toMatchObject({ id: sft, reward_source: null });
  expect((await listed("?status=failed")).data).toEqual([]);
  const first = await listed("?limit=2&method=grpo");
  expect([first.has_more, first.data.length, first.data[0].reward_source]).toEqual([true, 2, null]);
  const rest = await listed(`?limit=2&method=grpo&after=${first.data[1].id}`);
  expect([rest.has_more, rest.data.map((job: { id: string }) => job.id)]).toEqual([false, [ids[2]]]);
  expect((await listed("?status=nope")).error.param).toBe("status");
  expect((await app.call("GET", PATH, undefined, { key: app.keyB })).body.data).toEqual([]);
  const other = await app.call("GET", `${PATH}?after=${sft}`, undefined, { key: app.keyB });
  expect([other.status, other.body.data]).toEqual([200, []]); // a cursor is a position, and shows nothing of the job
});

test("the queue is ordered by priority, then by time", async () => {
  const normal = await app.job();
  clock.advance(1);
  const low = await app.job({ priority: "low" });
  clock.advance(1);
  const high = await app.job({ priority: "high" });
  const positions = await Promise.all([high, normal, low].map(async (id) => (await app.get(id)).queue_position));
  expect(positions).toEqual([1, 2, 3]);
  app.moves(high, ["provision"]);
  expect([(await app.get(high)).queue_position, (await app.get(normal)).queue_position]).toEqual([null, 1]);
});

describe("cancel, pause and resume", () => {
  test("a queued job is cancelled at once and unpins its rows", async () => {
    const id = await app.job();
    const { status, body } = await post(`${id}/cancel`);
    expect([status, body.status]).toEqual([200, "cancelled"]);
    expect(body.completed_at).toBeString();
    expect(pins()).toEqual([]);
    const again = await post(`${id}/cancel`);
    expect([again.status, again.body.error.code]).toEqual([400, "unsupported_state"]);
    expect(eventsOf(app, id)).toEqual(["job.created", "job.cancelled"]);
    expect(await notes(id)).toEqual(["job.created", "job.cancelled"]);
  });

  test("a running job is cancelling until its worker has ended", async () => {
    const id = await app.job();
    app.moves(id, ["provision", "run"]);
    expect((await post(`${id}/cancel`)).body.status).toBe("cancelling");
    expect((await post(`${id}/cancel`)).body.status).toBe("cancelling");
    expect(pins()).toHaveLength(1);
    expect((await post(`${id}/pause`)).status).toBe(400);
    expect(eventsOf(app, id).slice(3)).toEqual(["job.cancelling"]);
  });

  test("a paused job keeps its rows and goes to the end of the queue when it is resumed", async () => {
    const id = await app.job();
    app.moves(id, ["provision", "run"], { step: 3 });
    expect((await post(`${id}/pause`)).body).toMatchObject({ status: "paused", pause_reason: "by request" });
    expect((await post(`${id}/pause`)).status).toBe(400);
    expect(pins()).toHaveLength(1);
    clock.advance(10);
    const other = await app.job();
    clock.advance(10);
    const { body } = await post(`${id}/resume`);
    expect(body).toMatchObject({ status: "queued", pause_reason: null, progress: { step: 3 }, queue_position: 2 });
    expect((await app.get(other)).queue_position).toBe(1);
    expect((await post(`${id}/resume`)).body.error.code).toBe("unsupported_state");
    expect(await notes(id)).toEqual(["job.created", "job.paused", "job.requeued"]);
  });

  test("a running job cannot be resumed, though its worker's death would requeue it", async () => {
    const id = await app.job();
    app.moves(id, ["provision", "run"]);
    expect((await post(`${id}/resume`)).status).toBe(400);
    expect((await app.get(id)).status).toBe("running");
  });
});

test("progress, headline metric, remaining time and cost are current", async () => {
  const id = await app.job({ hyperparameters: { max_steps: 40 } });
  const running = { step: 10, etaMs: 90_400, latestMetrics: { reward: 0.5, loss: 1 }, rateMicros: 3_600_000 };
  app.moves(id, ["provision", "run"], { ...running, costMicros: 1_000, runSince: clock.now() });
  clock.advance(10_000);
  expect(await app.get(id)).toMatchObject({
    progress: { step: 10, total_steps: 40, percent: 25, eta_seconds: 90 },
    headline_metric: { name: "reward", value: 0.5, better: "higher" },
    latest_metrics: { reward: 0.5, loss: 1 },
    cost_usd: 0.011,
  });
});

test("a clone is the same job on the same rows, except for the fields of the request", async () => {
  const more = { seed: 9, hyperparameters: { max_steps: 7, beta: 0.1 }, lora: { r: 4 }, priority: "high" };
  const source = await app.job({ ...more, max_cost_usd: 2.5, metadata: { a: "b" } });
  await app.call("POST", `/v1/datasets/${await app.dataset("prompt")}/rows`, { rows: [{ prompt: "new" }] });
  const body = { source_job: source, hyperparameters: { beta: 0.2 }, output_name: "again" };
  const { status, body: clone } = await app.call("POST", PATH, body);
  const known = await app.get(source);
  expect(status).toBe(201);
  for (const field of ["dataset", "lora", "reward_source", "seed", "lock", "priority", "max_cost_usd", "metadata"])
    expect(clone[field]).toEqual(known[field]);
  expect(clone.hyperparameters).toEqual({ ...known.hyperparameters, beta: 0.2 });
  expect(clone).toMatchObject({ source_job: source, output_name: "again", status: "queued" });
  const sft = await app.call("POST", PATH, { source_job: source, method: "sft", dataset: await app.dataset("chat") });
  expect(sft.body).toMatchObject({ method: "sft", reward_source: null, lora: { r: 4 } });
});

test("a job may start from a checkpoint of the same base model and settings, which is then kept", async () => {
  const source = await app.job({ lora: { r: 4 } });
  const checkpoint = app.checkpoint(source, 5);
  expect((await app.post({ resume_from: checkpoint, lora: { r: 8 } })).body.error.param).toBe("/resume_from");
  const deleted = app.checkpoint(source, 3, { deletedAt: 1 });
  expect((await app.post({ resume_from: deleted })).status).toBe(404);
  const { body } = await app.post({ resume_from: checkpoint });
  expect(body).toMatchObject({ resume_from: checkpoint, lora: { r: 4 } });
  await post(`${source}/cancel`);
  const kept = await app.call("DELETE", `${PATH}/${source}`);
  expect([kept.status, kept.body.error.message]).toEqual([400, expect.stringContaining(body.id)]);
  await post(`${body.id}/cancel`);
  expect((await app.call("DELETE", `${PATH}/${source}`)).status).toBe(200);
});

test("a field without effect is a warning in the events", async () => {
  const id = await app.job({ hyperparameters: { logging_steps: 5 } });
  const { body } = await app.call("GET", `${PATH}/${id}/events`);
  expect(body.data[0]).toMatchObject({ object: "training_job.event", job_id: id, level: "warn", type: "warning" });
});

test("a job can be published and unpublished", async () => {
  const id = await app.job();
  expect((await post(`${id}/publish`)).body.publish).toBe(true);
  expect((await post(`${id}/publish`)).body.publish).toBe(true);
  expect((await app.call("DELETE", `${PATH}/${id}/publish`)).body.publish).toBe(false);
  expect(await notes(id)).toEqual(["job.created", "job.published", "job.unpublished"]);
});

test("another workspace sees nothing of a job and moves nothing of it", async () => {
  const id = await app.job();
  const asB = { key: app.keyB };
  for (const path of ["", "/events", "/metrics", "/samples", "/checkpoints"])
    expect((await app.call("GET", `${PATH}/${id}${path}`, undefined, asB)).status).toBe(404);
  for (const path of ["cancel", "pause", "resume", "publish"])
    expect((await post(`${id}/${path}`, app.keyB)).status).toBe(404);
  expect((await app.call("DELETE", `${PATH}/${id}`, undefined, asB)).status).toBe(404);
  const clone = await app.call("POST", PATH, { source_job: id }, asB);
  expect([clone.status, clone.body.error.param]).toEqual([404, "/source_job"]);
});

test("a dataset that a job reads cannot be deleted until the job has ended", async () => {
  const { body } = await app.call("POST", "/v1/datasets", { name: "own", format: "prompt" });
  await app.call("POST", `/v1/datasets/${body.id}/rows`, { rows: [{ prompt: "a" }] });
  const id = await app.job({ dataset: undefined, dataset_id: body.id });
  expect((await app.call("DELETE", `/v1/datasets/${body.id}`)).status).toBe(400);
  await post(`${id}/cancel`);
  expect((await app.call("DELETE", `/v1/datasets/${body.id}`)).status).toBe(200);
});
