// tier: all (trains models)
import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { startFakeHf } from "../../../../../test/connectors/fake_hf.ts";
import { until } from "../../../../../test/harness.ts";
import { type JobsApp, jobsApp } from "../../../../../test/jobs_kit.ts";
import { failInterrupted } from "../../../data/datasets/connected/resolve.ts";
import { datasetPins } from "../../../data/datasets/table.ts";
import { reconcileReadings } from "./reading.ts";

setDefaultTimeout(60_000);
const TOKEN = "hf_MarkedTokenOfAJob123456";
const ROWS = '{"prompt":"1+1"}\n{"prompt":"2+2"}\n{"prompt":"3+3"}\n';
const hub = startFakeHf({
  "lab/rows": { files: { "train.jsonl": ROWS } },
  "lab/pairs": { files: { "train.jsonl": '{"prompt":"1+1","chosen":"2","rejected":"3"}\n' } },
  "lab/secret": { token: TOKEN, files: { "train.jsonl": ROWS } },
});
/** The same hub. While `hold` is set, it lists no files. */
const gate = { hold: false, waiting: 0 };
const slow = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  async fetch(request) {
    const { pathname, search } = new URL(request.url);
    if (gate.hold) gate.waiting++;
    while (gate.hold && !request.signal.aborted) await Bun.sleep(5);
    return fetch(`${hub.url}${pathname}${search}`, { headers: request.headers, redirect: "manual" });
  },
});
afterAll(async () => {
  await app.close().then(app.remove);
  hub[Symbol.dispose]();
  await slow.stop(true);
});

const flags = { "network.allow": ["127.0.0.1", "localhost"], "hub.endpoint": `http://127.0.0.1:${slow.port}` };
let app: JobsApp;
beforeAll(async () => {
  app = await jobsApp({ flags });
});
afterEach(() => {
  gate.hold = false;
});

async function connect(hub_dataset: string, credentials = {}) {
  const source = { source_type: "hf", hub_dataset, credentials };
  return (await app.call("POST", "/v1/datasets/connect", { name: hub_dataset, ...source })).body.id as string;
}

/** Creates a job whose source does not answer yet. */
async function held(dataset: string, more: object = {}) {
  gate.hold = true;
  gate.waiting = 0;
  const { status, body } = await app.post({ dataset, ...more });
  expect(status).toBe(201);
  await until("the source to be asked", () => gate.waiting > 0);
  return body;
}

const ended = (id: string) =>
  until("the reading to end", async () => {
    const job = await app.get(id);
    return job.load === null && !app.ctx.state.trainingJobs.isReading(id) ? job : undefined;
  });
const history = async (id: string): Promise<string[]> =>
  (await app.call("GET", `/v1/training_jobs/${id}/events`)).body.data
    .map(({ type }: { type: string }) => type)
    .reverse();
const pinsOf = (id: string) =>
  app.ctx.db
    .select()
    .from(datasetPins)
    .all()
    .filter(({ jobId }) => jobId === id);
const readers = () => app.ctx.supervisor.live().filter(({ kind }) => kind === "connector").length;

test("P9 connected dataset: the job answers at once, shows the reading, and has its snapshot afterwards", async () => {
  const dataset = await connect("lab/rows");
  const made = await held(dataset, { hyperparameters: { max_steps: 40 } });
  expect(made).toMatchObject({
    status: "queued",
    dataset: { id: dataset, snapshot_id: null, num_rows: null },
    load: { stage: "reading_dataset", reason: expect.stringContaining(`reads the dataset ${dataset}`) },
    queue_reason: expect.stringContaining("reads the dataset"),
    queue_position: null,
    progress: { total_steps: 0 },
  });
  expect((await app.call("GET", "/v1/training_jobs?status=queued")).body.data[0].id).toBe(made.id);
  expect(await history(made.id)).toEqual(["job.created", "dataset.reading"]);
  gate.hold = false;
  const job = await ended(made.id);
  expect(job).toMatchObject({
    status: "queued",
    dataset: { id: dataset, snapshot_id: "@snap-1", num_rows: 3 },
    queue_position: expect.any(Number),
    progress: { total_steps: 40 },
    checkpoint: { save_steps: 4 },
    error: null,
  });
  expect(job.lock.snapshot_sha256).toMatch(/^[0-9a-f]{64}$/);
  expect(job.hyperparameters.max_steps).toBe(40);
  expect(await history(made.id)).toEqual(["job.created", "dataset.reading", "dataset.read"]);
  expect((await app.call("GET", `/v1/datasets/${dataset}/snapshots/@snap-1`)).body).toMatchObject({
    trigger: "job_pin",
    job_id: made.id,
  });
  expect((await app.call("DELETE", `/v1/datasets/${dataset}`)).status).toBe(400);
});

test("P9 connected dataset: a source that fails, or has other rows, fails the job with dataset_error", async () => {
  const [pairs, secret] = [await connect("lab/pairs"), await connect("lab/secret")];
  for (const [dataset, words] of [
    [pairs, /grpo needs rows of the format/],
    [secret, /lab\/secret/],
  ] as const) {
    const { status, body } = await app.post({ dataset, eval_dataset: null });
    expect(status).toBe(201);
    const job = await ended(body.id);
    expect(job).toMatchObject({
      status: "failed",
      error: { code: "dataset_error", message: expect.stringMatching(words) },
    });
    expect((await history(body.id)).at(-1)).toBe("job.failed");
    expect(pinsOf(body.id)).toEqual([]);
    const events: { data: { id: string } }[] = (await app.call("GET", "/v1/events?types=job.failed")).body.data;
    expect(events.filter(({ data }) => data.id === body.id)).toHaveLength(1);
  }
});

test("P9 connected dataset: cancel ends the job at once and stops the reading", async () => {
  const { id } = await held(await connect("lab/rows"));
  const { body } = await app.call("POST", `/v1/training_jobs/${id}/cancel`);
  expect(body).toMatchObject({ status: "cancelled", load: null });
  await reconcileReadings(app.ctx); // the loop, which the cancellation wakes
  await until("the reading to end", () => !app.ctx.state.trainingJobs.isReading(id) && readers() === 0);
  expect(pinsOf(id)).toEqual([]);
});

test("P9 connected dataset: a paused job reads on, and fails if its source does", async () => {
  const rows = await connect("lab/rows");
  const paused = await held(rows);
  await app.call("POST", `/v1/training_jobs/${paused.id}/pause`);
  gate.hold = false;
  expect(await ended(paused.id)).toMatchObject({ status: "paused", dataset: { snapshot_id: "@snap-1" } });
  const failing = await held(await connect("lab/pairs"));
  await app.call("POST", `/v1/training_jobs/${failing.id}/pause`);
  gate.hold = false;
  expect(await ended(failing.id)).toMatchObject({ status: "failed", error: { code: "dataset_error" } });
});

test("P9 connected dataset: a job that joined another's reading reads itself when that one is cancelled", async () => {
  const dataset = await connect("lab/rows");
  const first = await held(dataset);
  const second = (await app.post({ dataset })).body;
  await app.call("POST", `/v1/training_jobs/${first.id}/cancel`);
  await reconcileReadings(app.ctx);
  await until("the first reading to end", () => !app.ctx.state.trainingJobs.isReading(first.id));
  gate.hold = false;
  expect(await ended(second.id)).toMatchObject({ status: "queued", dataset: { snapshot_id: "@snap-1" } });
});

test("P9 connected dataset: after a restart a source without credentials is read again, one with credentials fails", async () => {
  const secret = await connect("lab/secret", { token: TOKEN });
  const again = await held(await connect("lab/rows"));
  const lost = await held(secret, { credentials: { token: TOKEN } });
  await app.close();
  gate.hold = false;
  app = await jobsApp({ flags, dir: app.dir });
  failInterrupted(app.ctx);
  await reconcileReadings(app.ctx);
  expect(await app.get(lost.id)).toMatchObject({
    status: "failed",
    error: { code: "dataset_error", message: expect.stringContaining("credentials of the request are not stored") },
  });
  expect(await ended(again.id)).toMatchObject({
    status: "queued",
    dataset: { snapshot_id: "@snap-1", num_rows: 3 },
  });
  expect(JSON.stringify(app.ctx.db.$client.query("SELECT * FROM training_jobs").all())).not.toContain(TOKEN);
  const retried = await app.post({ dataset: secret, credentials: { token: TOKEN } });
  expect(await ended(retried.body.id)).toMatchObject({ status: "queued", dataset: { snapshot_id: "@snap-1" } });
});
