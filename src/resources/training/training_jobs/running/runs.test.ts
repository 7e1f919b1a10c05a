// tier: all (trains models)
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync } from "node:fs";
import { eventsOf } from "../../../../../test/fake_replicas.ts";
import { manyTrainings, scoredBy } from "../../../../../test/fake_trainers.ts";
import { jobPaths } from "../../../../../test/foreign_paths.ts";
import { until } from "../../../../../test/harness.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import * as modelResults from "../../../serving/models/results.ts";
import { resultOf } from "../artifacts/job_models.ts";
import { keptCheckpoints } from "../state/checkpoint_files.ts";
import { trainingSamples } from "../table.ts";
import { reconcile } from "./reconcile.ts";

setDefaultTimeout(120_000); // each starts several processes
const { app, closeAll } = manyTrainings();
afterEach(closeAll);

test("a job runs from the queue to its end: steps, checkpoints, a model, its memory given back", async () => {
  const on = await app({ lives: [{ alarmAt: 2 }] });
  const id = on.add();
  const job = await on.reaches(id, "completed");
  expect(job).toMatchObject({
    step: 5,
    error: null,
    queueReason: null,
    gpu: { type: "cpu", count: 1 },
    runSince: null,
  });
  expect(on.steps(id)).toEqual([1, 2, 3, 4, 5]);
  expect(eventsOf(on, id)).toEqual(["job.provisioning", "job.running", "job.completed"]);
  const model = modelResults.byJob(on.ctx, on.workspaceA, id);
  expect(model).toMatchObject({ status: "ready", source: "training_job", name: job.outputName });
  expect(on.notes(id).filter(({ level }) => level === "warn")).toMatchObject([{ type: "kl_blow_up" }]);
  await until("the memory to be free", () => on.leases().length === 0);
  await until("the process to be forgotten", () => on.ctx.state.trainingJobs.runCount === 0);
});

test("the newest and the best checkpoints stay, and the files of the others are removed", async () => {
  const on = await app();
  const id = on.add({ totalSteps: 8, saveSteps: 1, keepLast: 1 });
  const job = await on.reaches(id, "completed");
  const losses = on.metrics(id).map((point) => (point as unknown as { loss: number }).loss);
  const means = losses.map((_, i) => losses.slice(0, i + 1).reduce((sum, loss) => sum + loss) / (i + 1)); // of at most 10 steps
  const best = means.indexOf(Math.min(...means)) + 1;
  const kept = keptCheckpoints(on.ctx.db, id);
  expect(kept.map(({ step }) => step)).toEqual([...new Set([best, 8])]);
  expect(kept.find(({ id: each }) => each === job.bestCheckpointId)?.step).toBe(best);
  const names = () => readdirSync(jobPaths(on.ctx, id).checkpoints).sort();
  await until("the others to be gone", () => names().length === kept.length);
  expect(names()).toEqual(kept.map(({ step }) => `step-00000${step}`));
});

test("a job that stops early is completed with the reason, and its model is the best checkpoint", async () => {
  const on = await app({ lives: [{ bestAt: 3, stopsAt: 5 }] });
  const hyperparameters = {
    early_stopping_patience: 2,
    metric_for_best_model: "eval_loss",
    greater_is_better: false,
    load_best_model_at_end: true,
  };
  const id = on.add({ totalSteps: 9, saveSteps: 1, keepLast: 1, hyperparameters });
  const job = await on.reaches(id, "completed");
  expect(job).toMatchObject({ step: 5, totalSteps: 9, stoppedEarly: "eval_loss did not improve", error: null });
  expect(on.notes(id).at(-1)).toMatchObject({
    type: "job.completed",
    message: "Completed after step 5, stopped early: eval_loss did not improve",
    data: { stopped_early: "eval_loss did not improve" },
  });
  const kept = keptCheckpoints(on.ctx.db, id);
  expect(kept.map(({ step }) => step)).toEqual([3, 5]);
  expect(job.bestCheckpointId).toBe(kept[0]!.id);
  const model = modelResults.byJob(on.ctx, on.workspaceA, id);
  expect(model?.id).toBe(modelResults.byCheckpoint(on.ctx, on.workspaceA, kept[0]!.id)!.id);
  expect(modelResults.byCheckpoint(on.ctx, on.workspaceA, kept[1]!.id)).toBeUndefined();
  expect(resultOf(on.ctx, on.workspaceA, { model: id, checkpoint: null }).checkpointId).toBe(kept[0]!.id); // a deployment of the job
  const { body } = await on.call("GET", `/v1/training_jobs/${id}`);
  expect(body).toMatchObject({
    status: "completed",
    stopped_early: "eval_loss did not improve",
    progress: { step: 5, total_steps: 9, percent: 100 },
  });
});

test("a job that stopped early and lost its last messages is completed from its files", async () => {
  const on = await app({ lives: [{ stopsAt: 4, crashUntold: 4 }, { stopsAt: 4 }] });
  const id = on.add({ totalSteps: 9, saveSteps: 0 });
  const job = await on.reaches(id, "completed");
  expect(job).toMatchObject({ step: 4, stoppedEarly: "eval_loss did not improve" });
  expect(on.steps(id)).toEqual([1, 2, 3, 4]);
  expect(on.starts()).toHaveLength(2);
});

test("a worker that dies is started again from its newest checkpoint, and reports the same", async () => {
  const on = await app({ lives: [{ crashAt: 4 }, {}] });
  const calm = on.add({ seed: 1, priority: -1 });
  const id = on.add({ seed: 1 });
  await on.reaches(id, "completed");
  await on.reaches(calm, "completed");
  expect(on.metrics(id)).toEqual(on.metrics(calm));
  expect(eventsOf(on, id)).toContain("job.requeued");
  expect(on.row(id)).toMatchObject({ crashes: 0, crashStep: 3 });
});

test("a checkpoint whose message was lost is found on the disk", async () => {
  const on = await app({ lives: [{ crashUntold: 2 }, {}] });
  const id = on.add({ totalSteps: 4, saveSteps: 2 });
  await on.reaches(id, "completed");
  const begun = on.notes(id).filter(({ type }) => type === "job.running");
  expect(begun.map(({ data }) => data["step"])).toEqual([0, 2]);
  expect(on.steps(id)).toEqual([1, 2, 3, 4]);
  expect(keptCheckpoints(on.ctx.db, id).map(({ step }) => step)).toEqual([2, 4]);
});

test("reports of steps after the checkpoint are deleted, samples too, and come again", async () => {
  const on = await app({
    lives: [
      { crashAt: 4, score: 2 },
      { score: 2, wait: { step: 3, gate: "/nowhere" } },
    ],
  });
  const id = on.add({ rewards: scoredBy("def reward(completions, **kw): return [1.0] * len(completions)") });
  await until("the second run", () => on.starts().length === 2 && on.row(id).status === "running");
  expect(on.steps(id)).toEqual([1, 2]);
  expect(on.row(id).step).toBe(2);
  const samples = on.ctx.db.select().from(trainingSamples).all();
  expect(samples.map(({ step, reward }) => [step, reward])).toEqual([1, 1, 2, 2].map((step) => [step, 1]));
});

test("a job whose worker makes no progress fails", async () => {
  const on = await app({ lives: [{ crashAt: 1 }], flags: { "training.crash_limit": 2 } });
  const id = on.add();
  const job = await on.reaches(id, "failed");
  expect(job.error).toMatchObject({ code: "worker_crashed" });
  expect(job.error?.message).toContain("2 times without progress");
  expect(on.starts()).toHaveLength(2);
});

test("kills from outside before the first step are tolerated longer than crashes", async () => {
  const on = await app({ lives: [{ gate: "/nowhere" }], flags: { "training.crash_limit": 2 } });
  const id = on.add();
  for (const kills of [1, 2, 3]) {
    await until("a process", () => on.starts().length === kills && on.ctx.state.trainingJobs.runCount === 1);
    if (kills === 3) on.relive([{}]);
    on.killLast();
    await until("its end", () => on.row(id).crashes === kills || on.row(id).status === "failed");
  }
  await on.reaches(id, "completed");
});

test("the sample that shows why a reward failed the job is in the data of the event", async () => {
  const on = await app({ lives: [{ trouble: "bad_reward" }] });
  const id = on.add();
  await on.reaches(id, "failed");
  const [event] = on.notes(id).filter(({ type }) => type === "job.failed");
  expect(event?.data).toMatchObject({ code: "reward_error", sample: { completion: "a bad one", error: "boom" } });
});

test("a job that runs out of memory is retried once with a smaller batch, then fails", async () => {
  const on = await app({ lives: [{ trouble: "lacking_memory" }, {}] });
  const id = on.add();
  expect(await on.reaches(id, "completed")).toMatchObject({ microDivisor: 4 });
  on.relive([{ trouble: "lacking_memory" }]);
  const second = on.add();
  const job = await on.reaches(second, "failed");
  expect(job.error).toMatchObject({ code: "out_of_memory", param: "/hyperparameters" });
  expect(job.error?.message).toContain("The estimate was");
  expect(on.starts()).toHaveLength(4);
});

test.each([
  [{ trouble: "no_effect" }, "no_effective_update", "asked for"],
  [{ trouble: "bad_rows" }, "dataset_error", "asked for"],
  [{ trouble: "bad_reward" }, "reward_error", "Completion: a bad one\nError: boom"],
  [{ fail: "config" }, "provisioning_failed", "asked to fail"],
  [{ lieAt: 2 }, "worker_crashed", "outside its protocol"],
] as const)("%j fails with %s", async (life, code, words) => {
  const on = await app({ lives: [life] });
  const job = await on.reaches(on.add(), "failed");
  expect(job.error).toMatchObject({ code });
  expect(job.error?.message).toContain(words);
  expect(on.starts()).toHaveLength(1);
});

test("a reward that cannot be run fails the job with a message", async () => {
  const on = await app({ lives: [{ score: 1 }] });
  const rewards = scoredBy("def reward(completions:\n  return 1");
  const job = await on.reaches(on.add({ method: "grpo", rewards }), "failed", 20_000);
  expect(job.error?.code).toBe("reward_error");
  expect(job.error?.message).toContain("line 1");
});

test("a missing base model or dataset fails the job and names the field", async () => {
  const on = await app();
  const model = await on.reaches(on.add({ baseModel: "none" }), "failed");
  expect(model.error).toMatchObject({ code: "provisioning_failed", param: "/base_model" });
  const rows = await on.reaches(on.add({ snapshotNumber: 9 }), "failed");
  expect(rows.error).toMatchObject({ code: "dataset_error", param: "/dataset" });
  expect(on.leases()).toEqual([]);
});

test("a job that can never fit fails; a job that does not fit now waits with a reason", async () => {
  const on = await app();
  const never = await on.reaches(on.add({ memoryBytes: 1e15 }), "failed");
  expect(never.error).toMatchObject({ code: "provisioning_failed", param: "/gpu" });
  const [device] = await gpu.devices(on.ctx);
  const bytes = device!.capacityBytes - device!.foreignBytes;
  const other = { holder: "x", kind: "test", workspaceId: "ws_x", gpuCount: 1, priority: 0, pinned: true };
  await gpu.acquire(on.ctx, { ...other, bytes, mayEvict: false });
  const id = on.add();
  await until("a reason", () => on.row(id).queueReason?.startsWith("waits for"));
  gpu.release(on.ctx, "x");
  await on.reaches(id, "completed");
});

test("jobs run by priority, training.parallel at a time", async () => {
  const on = await app({ loop: false });
  const low = on.add({ priority: -1 });
  const normal = on.add();
  const high = on.add({ priority: 1 });
  const order: string[] = [];
  await until("all to be done", async () => {
    await reconcile(on.ctx);
    for (const id of [low, normal, high]) if (on.row(id).status === "completed" && !order.includes(id)) order.push(id);
    expect(on.ctx.state.trainingJobs.runCount).toBeLessThanOrEqual(1);
    return order.length === 3;
  });
  expect(order).toEqual([high, normal, low]);
});

test("a workspace runs quotas.running_jobs jobs at a time, and a job that waits for it says so", async () => {
  const flags = { "training.parallel": 3, "quotas.running_jobs": 1 };
  const on = await app({ loop: false, lives: [{ gate: "/nowhere" }], flags });
  const first = on.add();
  const second = on.add();
  await until("the first to start", async () => {
    await reconcile(on.ctx);
    return on.row(first).status !== "queued";
  });
  await reconcile(on.ctx);
  const { body } = await on.call("GET", `/v1/training_jobs/${second}`);
  expect([body.status, body.queue_reason]).toEqual([
    "queued",
    expect.stringContaining("1 at most (quotas.running_jobs)"),
  ]);
  await on.call("POST", `/v1/training_jobs/${first}/cancel`);
  await until("the second to run", async () => {
    await reconcile(on.ctx);
    expect(on.ctx.state.trainingJobs.runCount).toBeLessThanOrEqual(2); // the cancelled one may still be ending
    return on.row(second).status !== "queued";
  });
});
