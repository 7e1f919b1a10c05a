// tier: all (large model files)
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { jobFile } from "../../../../test/foreign_paths.ts";
import { fakeClock, manyApps, type TestApp } from "../../../../test/harness.ts";
import { makeAdapter, makeModel } from "../../../../test/models.ts";
import { newId } from "../../../lib/ids.ts";
import { write } from "../../../platform/db/db.ts";
import { register, scan } from "./files/folder.ts";
import { removeAll } from "./remove.ts";
import * as modelResults from "./results.ts";
import * as models from "./service.ts";

setDefaultTimeout(120_000); // each starts processes
const SHAPE = { arch: "llama", type: "F32" } as const;
const { open, closeAll } = manyApps();
afterEach(closeAll);

/** A base in the folder, and a file as a job leaves it. */
async function app(options: Parameters<typeof open>[0] = {}) {
  const on = open(options);
  const job = join(on.dir, "jobs", "job_1");
  for (const dir of [job, join(on.dir, "models")]) mkdirSync(dir, { recursive: true });
  const file = makeModel(join(on.dir, "models"), SHAPE);
  const name = (file.split("/").at(-1) as string).replace(".gguf", "");
  const base = await register(on.ctx, { name, path: `models/${name}.gguf` });
  const adapter = makeAdapter(job, SHAPE);
  const result = {
    workspaceId: on.workspaceA,
    jobId: newId("job", 1),
    checkpointId: newId("ckpt", 1),
    step: 12,
    variant: "adapter",
    name: "mine",
    baseModelId: base.id,
    file: jobFile(on.dir, adapter),
  };
  return { on, base, job, result };
}

const resultsIn = (on: TestApp) => readdirSync(join(on.dir, "models", ".results"));

test("a job's adapter becomes a model that is ready, once, and outlives the job's files", async () => {
  const { on, base, job, result } = await app();
  const row = await modelResults.registerResult(on.ctx, result);
  const { body } = await on.call("GET", "/v1/models/mine");
  expect(body).toMatchObject({
    id: row.id,
    source: "training_job",
    status: "ready",
    type: "adapter",
    format: "gguf",
    base_model: base.name,
    job_id: result.jobId,
    checkpoint_id: result.checkpointId,
    owned_by: on.workspaceA,
  });
  expect(body.sha256).toHaveLength(64);
  expect((await on.call("GET", "/v1/models/mine", undefined, { key: on.keyB })).status).toBe(404);
  rmSync(job, { recursive: true });
  expect((await modelResults.registerResult(on.ctx, result)).id).toBe(row.id); // the file is not needed again
  expect(models.fileOf(on.ctx, row)).toBe("same");
  expect(resultsIn(on)).toHaveLength(1);
  await scan(on.ctx);
  expect(models.mustGet(on.ctx, on.workspaceA, row.id).status).toBe("ready");
});

test("two who register the same result at once get one model", async () => {
  const { on, result } = await app();
  const rows = await Promise.all([
    modelResults.registerResult(on.ctx, result),
    modelResults.registerResult(on.ctx, result),
  ]);
  expect(new Set(rows.map(({ id }) => id)).size).toBe(1);
});

test("a name that is taken, by the workspace or the installation, gets a number", async () => {
  const { on, base, result } = await app();
  const at = (step: number, name: string) =>
    modelResults.registerResult(on.ctx, { ...result, step, name, checkpointId: newId("ckpt", step) });
  expect((await at(1, "mine")).name).toBe("mine");
  expect((await at(2, "mine")).name).toBe("mine-2");
  expect((await at(3, "mine")).name).toBe("mine-3");
  expect((await at(4, base.name)).name).toBe(`${base.name}-2`);
});

test("a job stands for its own result of its last checkpoint, whatever was made later", async () => {
  const { on, result } = await app();
  const last = await modelResults.registerResult(on.ctx, result);
  const early = { ...result, step: 4, checkpointId: newId("ckpt", 4), name: "early" };
  const earlier = await modelResults.registerResult(on.ctx, early);
  await modelResults.registerResult(on.ctx, { ...result, variant: "gguf Q8_0", name: "export" });
  expect(modelResults.byJob(on.ctx, on.workspaceA, result.jobId)?.id).toBe(last.id);
  expect(modelResults.byCheckpoint(on.ctx, on.workspaceA, early.checkpointId)?.id).toBe(earlier.id);
  expect(modelResults.byJob(on.ctx, on.workspaceB, result.jobId)).toBeUndefined();
});

test("a file that was lost is brought again under the same id", async () => {
  const { on, result } = await app();
  const row = await modelResults.registerResult(on.ctx, result);
  rmSync(join(on.dir, row.path as string));
  await scan(on.ctx);
  expect(models.mustGet(on.ctx, on.workspaceA, row.id).status).toBe("missing");
  const again = await modelResults.registerResult(on.ctx, result);
  expect([again.id, again.status]).toEqual([row.id, "ready"]);
  expect(existsSync(join(on.dir, again.path as string))).toBe(true);
});

test("what is no model is refused in words and leaves nothing", async () => {
  const { on, job, result } = await app();
  const path = join(job, "broken.gguf");
  writeFileSync(path, "GGUF and nothing else");
  await expect(
    modelResults.registerResult(on.ctx, { ...result, file: { ...result.file, name: "broken.gguf" } }),
  ).rejects.toThrow("is not a usable model");
  expect(resultsIn(on)).toEqual([]);
  expect(existsSync(path)).toBe(true);
});

test("a file without a row is removed after an hour, and not before", async () => {
  const clock = fakeClock(Date.now());
  const { on, result } = await app({ clock });
  const linked = await modelResults.placeResult(on.ctx, result);
  await scan(on.ctx);
  expect(resultsIn(on)).toHaveLength(1);
  clock.advance(3_700_000);
  await scan(on.ctx);
  expect(resultsIn(on)).toEqual([]);
  expect(linked.path).toEndWith(".gguf");
});

test("a base that adapters need is not deleted, and the refusal names them", async () => {
  const { on, base, result } = await app();
  on.ctx.db.$client.run("UPDATE models SET workspace_id = ?, source = 'upload' WHERE id = ?", [on.workspaceA, base.id]);
  const row = await modelResults.registerResult(on.ctx, result);
  const refused = await on.call("DELETE", `/v1/models/${base.id}`);
  expect([refused.status, refused.body.error.code]).toEqual([400, "unsupported_state"]);
  expect(refused.body.error.message).toContain(`mine (${row.id})`);
  on.ctx.db.$client.run("UPDATE models SET base_model_id = NULL WHERE name = 'mine'"); // as uploads have it: by name
  expect((await on.call("DELETE", `/v1/models/${base.id}`)).body.error?.message).toContain(`mine (${row.id})`);
  expect((await on.call("DELETE", "/v1/models/mine")).status).toBe(200);
  await scan(on.ctx);
  expect(resultsIn(on)).toEqual([]);
  expect((await on.call("DELETE", `/v1/models/${base.id}`)).status).toBe(200);
});

test("a workspace that goes takes bases and adapters along", async () => {
  const { on, base, result } = await app();
  on.ctx.db.$client.run("UPDATE models SET workspace_id = ?, source = 'upload' WHERE id = ?", [on.workspaceA, base.id]);
  await modelResults.registerResult(on.ctx, result);
  write(on.ctx.db, () => removeAll(on.ctx, on.workspaceA));
  expect((await on.call("GET", "/v1/models?registry=true")).body.data).toEqual([]);
});
