import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { copyFileSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { hashOf, startFakeHub } from "../../../../../test/fake_hub.ts";
import { jobFile } from "../../../../../test/foreign_paths.ts";
import { tempDir, until } from "../../../../../test/harness.ts";
import { type JobsApp, jobsApp } from "../../../../../test/jobs_kit.ts";
import { makeAdapter, makeModel } from "../../../../../test/models.ts";
import { pullAll } from "../../../serving/models/hub/pull.ts";
import * as modelResults from "../../../serving/models/results.ts";
import * as models from "../../../serving/models/service.ts";
import { find } from "../state/rows.ts";
import { reconcileReadings } from "./reading.ts";

setDefaultTimeout(60_000);
const files = tempDir();
const bytes = new Uint8Array(readFileSync(makeModel(files, { arch: "llama", type: "F32" })));
const mixture = new Uint8Array(readFileSync(makeModel(files, { arch: "qwen3moe", type: "F32" })));
const hub = startFakeHub({
  "acme/tiny": { files: { "tiny.gguf": bytes } },
  "acme/mixture": { files: { "mixture.gguf": mixture } },
});
let app: JobsApp;
const flags = { "hub.endpoint": hub.url, "network.allow": ["127.0.0.1", "localhost"] };
beforeAll(async () => {
  app = await jobsApp({ flags });
});
afterEach(() => {
  hub.trouble = undefined;
});
afterAll(async () => {
  await app.close().then(app.remove);
  hub.stop();
  rmSync(files, { recursive: true, force: true });
});

const SFT = async () => ({ method: "sft", dataset: await app.dataset("completion"), reward_source: null });
const sft = async (base_model: string, more: object = {}) => app.post({ ...(await SFT()), base_model, ...more });
const rowOf = (id: string) => find(app.ctx, app.workspaceA, id)!;
const notes = async (id: string): Promise<string[]> =>
  (await app.call("GET", `/v1/training_jobs/${id}/events`)).body.data.map(({ type }: { type: string }) => type);

test("a model of the hub: the job waits for its download, and then knows its steps and its hash", async () => {
  const { status, body } = await sft("acme/tiny", { hyperparameters: { max_steps: 7 } });
  expect([status, body.status, body.progress.total_steps]).toEqual([201, "queued", 0]);
  expect(body.load).toMatchObject({ stage: "fetching_model", reason: "downloads the model acme/tiny (0 %)" });
  expect(body.queue_position).toBeNull();
  expect(body.queue_reason).toBe("downloads the model acme/tiny (0 %)");
  await pullAll(app.ctx, new AbortController().signal);
  const job = await until("the end of the wait", async () => {
    const now = await app.get(body.id);
    return now.load === null ? now : undefined;
  });
  expect(job).toMatchObject({ status: "queued", queue_reason: null, progress: { total_steps: 7 } });
  expect(job.lock.base_model_sha256).toBe(hashOf(bytes));
  expect(job.memory_bytes).toBeGreaterThan(0);
  expect(await notes(body.id)).toContain("model.waiting");
  expect((await sft("acme/tiny")).body.load).toBeNull(); // the model is here now
});

test("a download that fails, fails the job with its reason; a cancelled job waits no longer", async () => {
  const { body: lost } = await sft("acme/nothing");
  const { body: left } = await sft("acme/nothing");
  await app.call("POST", `/v1/training_jobs/${left.id}/cancel`);
  await reconcileReadings(app.ctx);
  await until("the wait to end", () => !app.ctx.state.trainingJobs.isReading(left.id));
  expect((await app.get(left.id)).status).toBe("cancelled");
  await pullAll(app.ctx, new AbortController().signal);
  const job = await until("its failure", async () => {
    const now = await app.get(lost.id);
    return now.status === "failed" ? now : undefined;
  });
  expect(job.error).toMatchObject({ code: "provisioning_failed", param: "/base_model" });
  expect(job.error.message).toMatch(/^The model acme\/nothing is failed: /);
});

test("a model with experts: only adapters of its attention, after the download and at the creation", async () => {
  const { body: whole } = await sft("acme/mixture", { lora: null });
  const { body: adapter } = await sft("acme/mixture");
  expect([whole.status, adapter.lora.target_modules.length]).toEqual(["queued", 7]); // nothing is known of the model yet
  await pullAll(app.ctx, new AbortController().signal);
  const ended = async (id: string) =>
    until("the end of the wait", async () => {
      const now = await app.get(id);
      return now.load === null ? now : undefined;
    });
  const message = "lora: qwen3moe has experts: only adapters of its attention are trained; give lora";
  expect((await ended(whole.id)).error).toEqual({ code: "provisioning_failed", message, param: "/lora" });
  const attention = ["q_proj", "k_proj", "v_proj", "o_proj"];
  expect((await ended(adapter.id)).lora.target_modules).toEqual(attention);
  const refused = await sft("acme/mixture", { lora: null });
  expect([refused.status, refused.body.error]).toMatchObject([422, { message, param: "/lora" }]);
  const outside = await sft("acme/mixture", { lora: { target_modules: ["q_proj", "up_proj"] } });
  expect([outside.status, outside.body.error.param]).toEqual([422, "/lora/target_modules"]);
  expect(outside.body.error.message).toContain("leave out up_proj");
  for (const lora of [undefined, {}, { target_modules: "all-linear" }, { target_modules: attention }]) {
    const { status, body } = await sft("acme/mixture", { lora });
    expect([status, body.lora?.target_modules]).toEqual([201, attention]);
  }
  expect((await sft("acme/mixture", { lora: { target_modules: ["v_proj"] } })).status).toBe(201);
  const dry = await sft("acme/mixture", { lora: null, dry_run: true });
  expect(dry.body).toMatchObject({ valid: false, errors: [{ param: "/lora" }] });
});

test("a server that was killed while a job waited goes on waiting", async () => {
  const dir = tempDir();
  const first = await jobsApp({ flags, dir });
  const dataset = await first.dataset("completion");
  const { body } = await first.post({ method: "sft", dataset, reward_source: null, base_model: "acme/tiny" });
  await first.close();
  const second = await jobsApp({ flags, dir });
  await reconcileReadings(second.ctx);
  expect((await second.get(body.id)).load).toMatchObject({ stage: "fetching_model" });
  await pullAll(second.ctx, new AbortController().signal);
  await until("the end of the wait", async () => (await second.get(body.id)).load === null);
  expect((await second.get(body.id)).progress.total_steps).toBeGreaterThan(0);
  await second.close().then(second.remove);
});

test("offline, and in a dry run, nothing is downloaded", async () => {
  const { body } = await sft("acme/unseen", { dry_run: true });
  expect(body).toMatchObject({ valid: true, warnings: [{ param: "/base_model" }] });
  expect(body.warnings[0].message).toContain("is downloaded first");
  expect(models.find(app.ctx, app.workspaceA, "acme/unseen")).toBeUndefined();
  const bad = await sft("acme/unseen", { hyperparameters: { max_stepz: 1 } });
  expect(bad.status).toBe(422);
  expect(models.find(app.ctx, app.workspaceA, "acme/unseen")).toBeUndefined();
  const offline = await jobsApp({ flags: { ...flags, offline: true } });
  const dataset = await offline.dataset("completion");
  const refused = await offline.post({ method: "sft", dataset, reward_source: null, base_model: "acme/tiny" });
  expect([refused.status, refused.body.error.param]).toEqual([404, "/base_model"]);
  expect(refused.body.error.message).toContain("offline = true forbids downloads");
  await offline.close().then(offline.remove);
});

const LORA = { r: 4, alpha: 8, dropout: 0, target_modules: ["q_proj"] as ["q_proj"], use_rslora: false };

/** A completed job with its adapter, like the end of a run leaves it. */
async function finished(outputName: string) {
  const base = models.mustGet(app.ctx, app.workspaceA, "random");
  const { body } = await sft("random", { lora: LORA, output_name: outputName });
  const id = body.id as string;
  const checkpointId = app.checkpoint(id, 8);
  const path = join(app.dir, "jobs", id, "checkpoints", "step-8");
  mkdirSync(path, { recursive: true });
  renameSync(makeAdapter(files, { arch: "llama", type: "F32", rank: 4 }), join(path, "adapter.gguf"));
  app.moves(id, ["provision", "run", "complete"], { completedAt: 1 });
  const of = { workspaceId: app.workspaceA, jobId: id, checkpointId, step: 8, variant: "adapter", name: outputName };
  const file = jobFile(app.dir, join(path, "adapter.gguf"));
  const model = await modelResults.registerResult(app.ctx, { ...of, baseModelId: base.id, file });
  return { id, checkpointId, model, base };
}

test("the result of a job by any of its names: its adapter is trained further on its base", async () => {
  const { id, checkpointId, model, base } = await finished("poet");
  const sha256 = hashOf(new Uint8Array(readFileSync(models.pathOf(app.ctx, base))));
  for (const name of ["poet", id, checkpointId, model.id]) {
    const { status, body } = await sft(name);
    expect([name, status]).toEqual([name, 201]);
    expect(body).toMatchObject({ base_model: name, lora: LORA, load: null });
    expect(body.lock).toMatchObject({ base_model_sha256: sha256, adapter_sha256: model.sha256 });
    expect(rowOf(body.id)).toMatchObject({ baseModelId: base.id, startModelId: model.id });
  }
  const pairs = { method: "dpo", dataset: await app.dataset("preference"), reward_source: null };
  const dpo = await app.post({ ...pairs, base_model: "poet", lora: { ...LORA, alpha: 16 } });
  expect(rowOf(dpo.body.id)).toMatchObject({ startModelId: model.id, lora: { alpha: 16 } });
  const used = await app.call("DELETE", `/v1/models/${model.id}`);
  expect([used.status, used.body.error.message]).toEqual([400, expect.stringContaining("trains on model poet")]);
  const both = await sft("poet", { resume_from: checkpointId });
  expect([both.status, both.body.error.param]).toEqual([422, "/resume_from"]);
  expect((await app.post({ ...(await SFT()), base_model: checkpointId }, { key: app.keyB })).status).toBe(404);
});

test("resume_from of a job that started from an adapter keeps that adapter as the reference", async () => {
  const { model, checkpointId, base } = await finished("singer");
  const { body: first } = await sft("singer");
  const later = app.checkpoint(first.id, 2);
  for (const name of ["random", "singer"]) {
    const { status, body } = await sft(name, { resume_from: later });
    expect([name, status]).toEqual([name, 201]);
    expect(rowOf(body.id)).toMatchObject({ resumeFrom: later, baseModelId: base.id, startModelId: model.id });
    expect(body.lock.adapter_sha256).toBe(model.sha256);
  }
  const other = await sft("singer", { resume_from: checkpointId }); // of the job that made the adapter
  expect([other.status, other.body.error.param]).toEqual([422, "/resume_from"]);
  app.ctx.db.$client.run("UPDATE training_jobs SET start_model_id = 'mdl_gone' WHERE id = ?", [first.id]);
  const refused = await sft("random", { resume_from: later });
  expect([refused.status, refused.body.error.message]).toEqual([422, expect.stringContaining("base_model instead")]);
});

test("other LoRA settings, or all weights: the adapter is merged into its base first", async () => {
  const { model, checkpointId, id } = await finished("painter");
  for (const lora of [{ r: 8 }, null]) {
    const { body } = await sft("painter", { lora });
    const merged = models.mustGet(app.ctx, app.workspaceA, "painter-step-8");
    expect(merged).toMatchObject({ checkpointId, variant: "merged F16", status: "pending" });
    expect(rowOf(body.id)).toMatchObject({ baseModelId: merged.id, startModelId: null });
    expect(body.load).toMatchObject({ stage: "fetching_model", reason: "waits for the model painter" });
    await app.call("POST", `/v1/training_jobs/${body.id}/cancel`);
  }
  app.ctx.db.$client.run("UPDATE models SET status = 'failed' WHERE name = 'painter-step-8'");
  app.ctx.db.$client.run("UPDATE training_checkpoints SET deleted_at = 1 WHERE job_id = ?", [id]);
  const refused = await sft("painter", { lora: { r: 8 } });
  expect([refused.status, refused.body.error.param]).toEqual([422, "/lora"]);
  expect(refused.body.error.message).toContain("use its LoRA settings (r 4, target_modules q_proj)");
  expect(rowOf((await sft("painter")).body.id).startModelId).toBe(model.id);
});

test("a job without a result, and an output name of several, are refused with what to do", async () => {
  const { body } = await sft("random", { output_name: "unfinished" });
  const waiting = await sft("unfinished");
  expect(waiting.body.error).toMatchObject({ param: "/base_model" });
  expect(waiting.body.error.message).toContain(`base_model: ${body.id} is queued: wait until it has completed`);
  const second = await sft("random", { output_name: "unfinished" });
  const several = await sft("unfinished");
  expect([several.status, several.body.error.param]).toEqual([422, "/base_model"]);
  for (const id of [body.id, second.body.id]) expect(several.body.error.message).toContain(id);
});

test("a file below the models folder by its path", async () => {
  mkdirSync(join(app.dir, "models", "zoo"), { recursive: true });
  const path = "models/zoo/small.gguf";
  copyFileSync(join(app.dir, "models", "random.gguf"), join(app.dir, path));
  const { register } = await import("../../../serving/models/files/folder.ts");
  const model = await register(app.ctx, { name: "zoo/small", path });
  for (const name of ["zoo/small", "zoo/small.gguf", "models/zoo/small.gguf", "models/zoo/", "zoo"])
    expect([name, rowOf((await sft(name)).body.id).baseModelId]).toEqual([name, model.id]);
});
