// tier: all (trains models)
import { afterAll, beforeAll, expect, test } from "bun:test";
import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { withFakes } from "../../../../../test/fake_workers/program.ts";
import { tempDir, until } from "../../../../../test/harness.ts";
import { type JobsApp, jobsApp } from "../../../../../test/jobs_kit.ts";
import { Source } from "../../../../lib/source.ts";
import type { TrainSample } from "../../../../workers/protocol_trainer.ts";
import * as datasets from "../../../data/datasets/service.ts";
import { datasetPins, datasetSnapshots } from "../../../data/datasets/table.ts";
import { trainingJobs } from "../table.ts";
import { rewardPreview } from "./validate.ts";

const ROWS = '{"prompt":"a"}\n{"prompt":"b"}\n';
const LISTING = `<?xml version="1.0"?><ListBucketResult><Name>b</Name><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated>
<Contents><Key>rows.jsonl</Key><Size>${ROWS.length}</Size><ETag>"e"</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>`;

/** A public bucket. */
const bucket = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  fetch: ({ url }) => {
    const { pathname } = new URL(url);
    if (!pathname.startsWith("/open")) return new Response("<Error><Code>AccessDenied</Code></Error>", { status: 403 });
    const listing = pathname === "/open" || pathname === "/open/";
    const headers = { etag: '"e"', "content-type": listing ? "application/xml" : "text/plain" };
    return new Response(listing ? LISTING : ROWS, { headers });
  },
});
const connected = (name: string) => {
  const source = Source.parse({
    source_type: "s3",
    source_uri: `s3://${name}/rows.jsonl?endpoint=http://127.0.0.1:${bucket.port}`,
  });
  return datasets.createConnected(app.ctx, app.workspaceA, { name, metadata: {}, source }).id;
};

let app: JobsApp;
beforeAll(async () => {
  const dir = tempDir();
  const script = join(dir, "trainers.json");
  writeFileSync(script, JSON.stringify([{}]));
  app = await jobsApp({
    dir,
    supervise: withFakes("trainer", script),
    flags: { "network.allow": ["127.0.0.1"], "billing.local_rate_usd_per_hour": -1 },
  });
}, 60_000);
afterAll(async () => {
  await bucket.stop(true);
  await app.close().then(app.remove);
});

test("a dry run samples the model, runs the reward, and leaves nothing behind", async () => {
  const counts = () =>
    [trainingJobs, datasetPins, datasetSnapshots].map((t) => app.ctx.db.select().from(t).all().length);
  const request = await app.request({ hyperparameters: { max_steps: 50 } });
  const before = counts();
  const { status, body } = await app.call("POST", "/v1/training_jobs/validate", request);
  expect([status, body.errors, body.valid]).toEqual([200, [], true]);
  expect(body.resolved_hyperparameters).toMatchObject({ max_steps: 50, num_generations: 8 });
  expect(body.estimate).toEqual({
    vram_bytes_peak: 1_000_000,
    duration_seconds: 0.6,
    total_steps: 50,
    cost_usd: 0.00001,
  });
  expect(body.reward_preview.mean).toBeGreaterThan(0);
  expect(body.reward_preview.samples[0]).toMatchObject({
    reward: expect.any(Number),
    sub_rewards: { reward: expect.any(Number) },
  });
  expect(counts()).toEqual(before);
  expect((await app.call("GET", "/v1/gpu")).body.data[0].leases).toEqual([]);
  const snapshots = await app.call("GET", `/v1/datasets/${request.dataset}/snapshots`);
  expect(snapshots.body.data).toEqual([]);
}, 120_000);

test("a dry run of a job that would fail later returns the error", async () => {
  app.ctx.db.$client.run("UPDATE models SET size_bytes = 1, workspace_id = NULL WHERE name = 'random'");
  const { body } = await app.post({ dry_run: true });
  expect(body).toMatchObject({ valid: false, errors: [{ code: "provisioning_failed", param: "/base_model" }] });
  app.ctx.db.$client.run(`UPDATE models SET size_bytes = ${statSync(join(app.dir, "models/random.gguf")).size}`);
});

/** The job when its source was read, or could not be. */
const readJob = (id: string) =>
  until("the reading to end", async () => {
    const job = await app.get(id);
    return job.load === null && !app.ctx.state.trainingJobs.isReading(id) ? job : undefined;
  });

test("P9 a connected dataset is read for its job, and its credentials are stored nowhere", async () => {
  const dataset = connected("open");
  const credentials = { access_key_id: "AKIDEXAMPLE", secret_access_key: "hush-hush-hush" };
  const { status, body } = await app.post({ dataset, credentials });
  expect(status).toBe(201);
  const job = await readJob(body.id);
  expect(job.dataset).toEqual({ id: dataset, name: "open", snapshot_id: "@snap-1", num_rows: 2 });
  expect(app.ctx.db.select().from(datasetPins).all()).toMatchObject([{ jobId: body.id, datasetId: dataset }]);
  const dump = app.ctx.db.$client.serialize().toString("latin1");
  for (const text of [dump, app.log.join("\n"), JSON.stringify([body, job])])
    expect(text).not.toContain("hush-hush-hush");
}, 120_000);

test("P9 a source that cannot be read fails its job, and nothing is left", async () => {
  const before = app.ctx.db.select().from(datasetPins).all().length;
  const { status, body } = await app.post({ dataset: connected("locked"), credentials: {} });
  expect(status).toBe(201);
  const { error } = await readJob(body.id);
  expect([error.code, error.param]).toEqual(["dataset_error", "/dataset"]);
  expect(app.ctx.db.select().from(datasetPins).all()).toHaveLength(before);
}, 120_000);

test("a dry run of a source that was never read warns, reads nothing, and creates nothing", async () => {
  const counts = () =>
    [trainingJobs, datasetPins, datasetSnapshots].map((t) => app.ctx.db.select().from(t).all().length);
  const before = counts();
  const { status, body } = await app.post({ dataset: connected("open"), dry_run: true });
  expect(status).toBe(200);
  expect(body).toMatchObject({ valid: true, errors: [], resolved_hyperparameters: null, reward_preview: null });
  expect(body.warnings).toMatchObject([{ param: "/dataset", message: expect.stringMatching(/not been read/) }]);
  expect(counts()).toEqual(before);
});

const sample = (reward: number | null): TrainSample => ({
  prompt: "p",
  completion: "c",
  reward,
  sub_rewards: {},
  advantage: null,
  tokens: 1,
  truncated: false,
  error: null,
});

test("a preview has the mean, the spread, and the share of prompts without a learning signal", () => {
  const samples = [1, 1, 0, 1, null, null, null, 0.5].map(sample);
  const shown = rewardPreview({ samples, latenciesMs: [5, 1, 9] }, 2);
  expect(shown).toMatchObject({ mean: 0.7, frac_zero_std: 2 / 3, latency_ms_p50: 5 });
  expect(shown?.std).toBeCloseTo(0.4, 10);
  expect(shown?.samples[0]).not.toHaveProperty("advantage");
  const empty = rewardPreview({ samples: [], latenciesMs: [] }, 2);
  expect(empty).toEqual({ mean: null, std: null, frac_zero_std: null, latency_ms_p50: null, samples: [] });
});

test("concurrent dry runs are all answered, and a client that disconnects releases its permit", async () => {
  const requests = await Promise.all([1, 2, 3].map(() => app.request({ dry_run: true })));
  const body = JSON.stringify(requests[0]);
  const client = new AbortController();
  const headers = { authorization: `Bearer ${app.keyA}`, "content-type": "application/json" };
  const url = "http://localhost/v1/training_jobs";
  const all = requests.map((_, i) =>
    app.handle(new Request(url, { method: "POST", headers, body, ...(i === 2 ? { signal: client.signal } : {}) })),
  );
  client.abort();
  const [first, second] = await Promise.all(all);
  expect([first?.status, second?.status]).toEqual([200, 200]);
  expect((await app.call("GET", "/v1/gpu")).body.data[0].leases).toEqual([]);
  expect((await app.post({ dry_run: true })).body.valid).toBe(true);
}, 120_000);
