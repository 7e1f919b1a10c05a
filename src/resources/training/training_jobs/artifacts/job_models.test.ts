import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { copyFileSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type TrainingApp, training } from "../../../../../test/fake_trainers.ts";
import { jobFile } from "../../../../../test/foreign_paths.ts";
import { until } from "../../../../../test/harness.ts";
import { newId } from "../../../../lib/ids.ts";
import { write } from "../../../../platform/db/db.ts";
import { withCheckpoint } from "../../../serving/deployments/checkpoint.ts";
import * as modelResults from "../../../serving/models/results.ts";
import * as models from "../../../serving/models/service.ts";
import { reconcile } from "../running/reconcile.ts";
import { type JobRow, trainingCheckpoints, trainingJobs } from "../table.ts";

setDefaultTimeout(120_000); // each starts processes
const open: TrainingApp[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close().then(each.remove);
});

async function app() {
  const on = await training({ loop: false });
  open.push(on);
  const base = models.mustGet(on.ctx, on.workspaceA, "random");
  const job = (more: Partial<JobRow> = {}) => on.add({ status: "running", baseModelId: base.id, ...more });
  /** A checkpoint as the trainer leaves it. */
  const checkpoint = (jobId: string, step: number, file: string | null = "adapter.gguf") => {
    const id = newId("ckpt", step);
    const path = join("jobs", jobId, "checkpoints", `step-${step}`);
    mkdirSync(join(on.dir, path), { recursive: true });
    if (file !== null) copyFileSync(join(on.dir, "adapter.gguf"), join(on.dir, path, file));
    const row = { id, jobId, workspaceId: on.workspaceA, step, path, sizeBytes: 1, metrics: {}, createdAt: step };
    write(on.ctx.db, (tx) => void tx.insert(trainingCheckpoints).values(row).run());
    return { id, path: join(on.dir, path) };
  };
  const finished = async (name: string) => {
    const jobId = job({ status: "completed", outputName: name });
    const { id: checkpointId, path } = checkpoint(jobId, 8);
    const result = { workspaceId: on.workspaceA, jobId, checkpointId, step: 8, variant: "adapter", name };
    const file = jobFile(on.dir, join(path, "adapter.gguf"));
    return { jobId, model: await modelResults.registerResult(on.ctx, { ...result, baseModelId: base.id, file }) };
  };
  const deploy = (json: object, key?: string) =>
    on.call("POST", "/v1/deployments", { name: `d-${newId("dep", 1)}`, ...json }, key === undefined ? {} : { key });
  const refused = async (json: object, key?: string) => {
    const { status, body } = await deploy(json, key);
    return [status, body.error?.code, body.error?.param, body.error?.message];
  };
  return { on, base, job, checkpoint, finished, deploy, refused };
}

test("a completed job is deployed by its id, its model by id or name", async () => {
  const { on, finished, deploy } = await app();
  const { jobId, model } = await finished("poet");
  const { status, body } = await deploy({ model: jobId });
  expect(status).toBe(201);
  expect(body).toMatchObject({ model: jobId, source: "training_job", checkpoint: null, status: "queued" });
  expect(body.endpoint_url).toBeNull();
  for (const name of [model.id, "poet"]) expect((await deploy({ model: name })).body.source).toBe("training_job");
  expect((await deploy({ model: "poet", source: "training_job" })).status).toBe(201);
  const used = await on.call("DELETE", `/v1/models/${model.id}`);
  expect([used.status, used.body.error.message]).toEqual([400, expect.stringContaining("stop it first")]);
});

test("a job without a result is refused with what to do", async () => {
  const { on, job, refused } = await app();
  const [running, failed, custom] = [job(), job({ status: "failed" }), job({ status: "completed", method: "custom" })];
  const state = [400, "unsupported_state", "/model"];
  expect(await refused({ model: running })).toEqual([
    ...state,
    expect.stringContaining("is running: wait until it has completed, or set checkpoint to one of its checkpoints"),
  ]);
  expect(await refused({ model: failed })).toEqual([...state, expect.stringContaining("is failed and has no result")]);
  expect(await refused({ model: custom })).toEqual([...state, expect.stringContaining("no model")]);
  expect((await refused({ model: newId("job", 1) })).slice(0, 3)).toEqual([404, "resource_not_found", "/model"]);
  expect((await refused({ model: running }, on.keyB))[0]).toBe(404);
});

test("a checkpoint is deployed while the job runs, and stays when the job no longer keeps it", async () => {
  const { on, base, job, checkpoint, deploy, refused } = await app();
  const [jobId, other] = [job({ outputName: "poet" }), job()];
  const [early, late] = [checkpoint(jobId, 4), checkpoint(jobId, 8)];
  const first = await deploy({ model: jobId, checkpoint: early.id });
  expect(first.body).toMatchObject({ model: jobId, source: "training_job", checkpoint: early.id });
  const byId = await deploy({ model: early.id });
  expect(byId.body).toMatchObject({ model: jobId, source: "training_job", checkpoint: early.id });
  expect(await refused({ model: early.id, checkpoint: late.id })).toEqual([
    ...[422, "schema", "/checkpoint"],
    expect.stringContaining("leave it out"),
  ]);
  expect((await refused({ model: early.id }, on.keyB)).slice(0, 3)).toEqual([404, "resource_not_found", "/model"]);
  expect((await refused({ model: "poet" }))[3]).toContain(`${jobId} is running: wait until it has completed`);
  rmSync(early.path, { recursive: true });
  expect((await deploy({ model: jobId, checkpoint: early.id })).status).toBe(201);
  const made = models.mustGet(on.ctx, on.workspaceA, "poet-step-4");
  expect([made.checkpointId, made.baseModelId]).toEqual([early.id, base.id]);
  const unknown = [404, "resource_not_found", "/checkpoint"];
  expect((await refused({ model: other, checkpoint: late.id })).slice(0, 3)).toEqual(unknown);
  expect((await refused({ model: jobId, checkpoint: "ckpt_nothing" })).slice(0, 3)).toEqual(unknown);
  expect((await refused({ model: jobId, checkpoint: late.id }, on.keyB))[0]).toBe(404);
  expect((await refused({ model: "random", checkpoint: late.id })).slice(0, 3)).toEqual([422, "schema", "/checkpoint"]);
  expect((await refused({ model: jobId }))[0]).toBe(400); // a checkpoint is not the job's result
});

test("a checkpoint and a result are the model of a request where any deployment has their base", async () => {
  const { on, job, checkpoint, finished, deploy } = await app();
  const jobId = job({ outputName: "sums" });
  const { id } = checkpoint(jobId, 4);
  const named = async (model: string) => (await withCheckpoint(on.ctx, on.workspaceA, { model })).model;
  const { jobId: done, model } = await finished("poet");
  for (const each of [id, done]) expect(named(each)).rejects.toThrow("no active deployment serves");
  await deploy({ model: "random", name: "base" });
  expect(await named(id)).toBe("base:sums-step-4");
  expect(await named(done)).toBe(`base:${model.name}`);
  expect(named(jobId)).rejects.toThrow("is running: wait until it has completed"); // it has no result yet
  expect(await named("random")).toBe("random");
  await deploy({ model: done, name: "own" });
  expect(await named(done)).toBe("own");
  expect(withCheckpoint(on.ctx, on.workspaceB, { model: id })).rejects.toThrow("No checkpoint");
});

test("an earlier checkpoint, or an export of one, does not stand in for a result that was deleted", async () => {
  const { on, base, checkpoint, finished, deploy, refused } = await app();
  const { jobId, model } = await finished("poet");
  const { id: early, path } = checkpoint(jobId, 4);
  const { body } = await deploy({ model: jobId, checkpoint: early });
  expect((await on.call("DELETE", `/v1/models/${model.id}`)).status).toBe(200);
  const file = jobFile(on.dir, join(path, "adapter.gguf"));
  const made = { workspaceId: on.workspaceA, jobId, checkpointId: early, step: 4, baseModelId: base.id, file };
  await modelResults.registerResult(on.ctx, { ...made, variant: "gguf Q8_0", name: "small" });
  const [status, , param, message] = await refused({ model: jobId });
  expect([status, param, message]).toEqual([400, "/model", expect.stringContaining("its model was deleted")]);
  expect((await deploy({ model: jobId, checkpoint: early })).body.model_id).toBe(body.model_id);
});

test("P0 checkpoint: an intermediate one of full weights becomes a model while its deployment waits", async () => {
  const { on, base, job, checkpoint, deploy, refused } = await app();
  const jobId = job({ lora: null, outputName: "poet", status: "completed" });
  const { id } = checkpoint(jobId, 4, null);
  const { status, body } = await deploy({ model: jobId, checkpoint: id });
  expect([status, body.status, body.checkpoint]).toEqual([201, "queued", id]);
  const made = () => models.mustGet(on.ctx, on.workspaceA, "poet-step-4");
  expect(models.usability(on.ctx, made())).toMatchObject({
    waits: "check",
    reason: "is being made from its checkpoint",
  });
  expect((await deploy({ model: jobId, checkpoint: id })).status).toBe(201); // the same model
  expect((await refused({ model: jobId, checkpoint: id }, on.keyB))[0]).toBe(404);
  await until("the model", async () => {
    await reconcile(on.ctx);
    return made().status === "ready";
  });
  expect(made()).toMatchObject({ checkpointId: id, jobId, baseModelId: base.id, variant: "merged F16" });
  expect(models.fileOf(on.ctx, made())).toBe("same");
});

test("P0 checkpoint: if no model can be made of it, the model fails with the reason", async () => {
  const { on, job, checkpoint, deploy } = await app();
  on.relive([{ fail: "data" }]);
  const jobId = job({ lora: null, outputName: "poet", status: "completed" });
  const { id } = checkpoint(jobId, 4, null);
  expect((await deploy({ model: jobId, checkpoint: id })).status).toBe(201);
  const model = await until("its failure", async () => {
    await reconcile(on.ctx);
    const row = models.mustGet(on.ctx, on.workspaceA, "poet-step-4");
    return row.status === "failed" ? row : undefined;
  });
  expect(model.error).toContain("asked to fail");
  const again = await deploy({ model: jobId, checkpoint: id });
  expect([again.status, again.body.error.code]).toEqual([502, "worker_failed"]);
});

test("a job that was deleted is still served by its id, from what it made", async () => {
  const { on, finished, deploy } = await app();
  const { jobId, model } = await finished("poet");
  write(on.ctx.db, (tx) => void tx.delete(trainingJobs).run());
  rmSync(join(on.dir, "jobs"), { recursive: true });
  expect((await deploy({ model: jobId })).status).toBe(201);
  expect(models.fileOf(on.ctx, model)).toBe("same");
});

test("an adapter without a base that fits is refused before anything is queued", async () => {
  const { on, finished, refused } = await app();
  await finished("poet");
  const set = (column: string, value: string | null) =>
    on.ctx.db.$client.run(`UPDATE models SET ${column} = ? WHERE name = 'poet'`, [value]);
  set("architecture", "qwen2");
  expect(await refused({ model: "poet" })).toEqual([
    400,
    "invalid_request",
    "/model",
    expect.stringContaining("is an adapter for qwen2 models, and random is a llama model"),
  ]);
  set("base_model_id", null);
  set("base_model", "owner/missing");
  expect((await refused({ model: "poet" }))[3]).toContain("its base model (owner/missing) is not on this server");
  set("base_model", "random");
  set("architecture", "llama");
  expect((await refused({ model: "poet" }))[0]).toBe(201);
});
