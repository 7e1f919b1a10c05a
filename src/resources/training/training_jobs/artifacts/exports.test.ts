// tier: all (trains models)
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { manyTrainings, scoredBy, type TrainingApp } from "../../../../../test/fake_trainers.ts";
import { until } from "../../../../../test/harness.ts";
import * as modelResults from "../../../serving/models/results.ts";
import * as models from "../../../serving/models/service.ts";
import { preview } from "../admission/preview.ts";
import { reconcile } from "../running/reconcile.ts";
import { keptCheckpoints } from "../state/checkpoint_files.ts";

setDefaultTimeout(120_000);
const { app, close, closeAll } = manyTrainings();
afterEach(closeAll);

const finished = async (on: TrainingApp, more = {}) => {
  const id = on.add(more);
  await on.reaches(id, "completed");
  return id;
};
const model = (on: TrainingApp, id: string, query = "", key = on.keyA) =>
  on.call("GET", `/v1/training_jobs/${id}/model${query}`, undefined, { key });
const ready = (on: TrainingApp, id: string, query: string) =>
  until("the file", async () => {
    const { status, body } = await model(on, id, query);
    if (status !== 200 && status !== 202) throw new Error(JSON.stringify(body));
    return status === 200 ? body : undefined;
  });
const fetched = async (on: TrainingApp, url: string, headers = {}) => {
  const { pathname, search } = new URL(url);
  return on.call("GET", pathname + search, undefined, { key: null, headers });
};

test("the adapter of the last or the best checkpoint can be downloaded without a key, whole or in part", async () => {
  const on = await app({ lives: [{ bestAt: 3 }] });
  const hyperparameters = { metric_for_best_model: "eval_loss", greater_is_better: false };
  const id = await finished(on, { saveSteps: 1, hyperparameters });
  const body = await ready(on, id, "");
  expect(body).toMatchObject({ object: "model_download", job_id: id, variant: "adapter", status: "ready" });
  expect(body.checkpoint_id).toBe(modelResults.byJob(on.ctx, on.workspaceA, id)?.checkpointId);
  expect(on.row(id).bestCheckpointId).not.toBe(body.checkpoint_id);
  expect((await ready(on, id, "?checkpoint=best")).checkpoint_id).toBe(on.row(id).bestCheckpointId);
  const bytes = readFileSync(join(on.dir, "adapter.gguf"));
  expect([body.size_bytes, body.sha256]).toEqual([
    bytes.length,
    new Bun.CryptoHasher("sha256").update(bytes).digest("hex"),
  ]);
  const part = await fetched(on, body.url, { range: "bytes=0-3" });
  expect([part.status, part.body]).toEqual([206, "GGUF"]);
  const { pathname } = new URL(body.url);
  expect((await on.call("GET", pathname, undefined, { key: null })).status).toBe(403);
});

test("a file that has to be made is 202 first, then ready, and a merged file is also a model", async () => {
  const on = await app();
  const id = await finished(on);
  const body = await ready(on, id, "?variant=gguf&quantization=q8_0&checkpoint=latest");
  expect(body).toMatchObject({ variant: "gguf", quantization: "Q8_0", step: 5 });
  const made = models.mustGet(on.ctx, on.workspaceA, body.model_id);
  expect(made).toMatchObject({ status: "ready", jobId: id, name: `out-${id}-q8_0` });
  expect(modelResults.byJob(on.ctx, on.workspaceA, id)?.variant).toBe("adapter");
  const [, last] = keptCheckpoints(on.ctx.db, id);
  const folder = await ready(on, id, "?variant=huggingface");
  expect(folder).toMatchObject({ quantization: "BF16", file_name: `out-${id}-huggingface.tar`, model_id: null });
  const peft = await ready(on, id, `?variant=peft&checkpoint=${last?.id}`);
  expect((await fetched(on, peft.url)).body).toContain("peft  of step-000005");
});

test("an impossible request is refused with the field", async () => {
  const on = await app();
  const id = await finished(on);
  const full = await finished(on, { lora: null });
  const refused = async (job: string, query: string) => {
    const { status, body } = await model(on, job, query);
    return [status, body.error.param];
  };
  expect(await refused(id, "?variant=nonsense")).toEqual([422, "variant"]);
  expect(await refused(id, "?variant=files")).toEqual([422, "variant"]);
  expect(await refused(full, "?variant=peft")).toEqual([422, "variant"]);
  expect(await refused(id, "?variant=merged&quantization=Q4_K_M")).toEqual([422, "quantization"]);
  expect(await refused(id, "?quantization=Q8_0")).toEqual([422, "quantization"]);
  expect(await refused(id, "?checkpoint=ckpt_none")).toEqual([404, "checkpoint"]);
  expect(await refused(on.add({ notBefore: 9e15 }), "")).toEqual([400, "id"]);
  expect((await model(on, id, "", on.keyB)).status).toBe(404);
});

test("an export that a kill interrupted is made again; a failed one has its error", async () => {
  const on = await app({ loop: false });
  const id = on.add();
  await until("it to be complete", async () => {
    await reconcile(on.ctx);
    return on.row(id).status === "completed";
  });
  on.relive([{ gate: "/nowhere" }]);
  expect((await model(on, id, "?variant=peft")).status).toBe(202);
  await close(on);
  const again = await app({ dir: on.dir });
  const body = await ready(again, id, "?variant=peft");
  expect(body.variant).toBe("peft");
  again.relive([{ fail: "data" }]);
  const { status, body: failed } = await until("its failure", async () => {
    const answer = await model(again, id, "?variant=merged");
    return answer.status === 202 ? undefined : answer;
  });
  expect([status, failed.error.code]).toEqual([502, "worker_failed"]);
  expect(failed.error.message).toContain("asked to fail");
});

test("a preview scores with the real reward, and gives its memory back", async () => {
  const on = await app({ loop: false });
  const job = on.row(
    on.add({ method: "grpo", rewards: scoredBy("def reward(completions, **kw): return [0.5 for _ in completions]") }),
  );
  const seen = await preview(on.ctx, job, new AbortController().signal);
  expect(seen).toMatchObject({ memoryBytes: 1_000_000, stepMs: 12 });
  expect("samples" in seen && seen.samples.map(({ reward }) => reward)).toEqual([0.5, 0.5, 0.5, 0.5]);
  expect(on.ctx.db.$client.query("SELECT * FROM gpu_leases").all()).toEqual([]);
});

test("a preview of a job that would fail returns its error; an aborted preview ends", async () => {
  const on = await app({ loop: false, lives: [{ fail: "data" }, { trouble: "no_effect", gate: "/nowhere" }] });
  const job = on.row(on.add());
  const { signal } = new AbortController();
  expect(await preview(on.ctx, job, signal)).toMatchObject({ error: { code: "dataset_error" } });
  expect(await preview(on.ctx, { ...job, baseModel: "none" }, signal)).toMatchObject({
    error: { param: "/base_model" },
  });
  expect(await preview(on.ctx, { ...job, memoryBytes: 1e15 }, signal)).toMatchObject({ error: { param: "/gpu" } });
  const client = new AbortController();
  const looking = preview(on.ctx, job, client.signal);
  await until("the second to start", () => on.starts().length === 2);
  client.abort();
  expect(looking).rejects.toThrow();
  await until("its process to be gone", () => on.ctx.supervisor.live().length === 0);
});
