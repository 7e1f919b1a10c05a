import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventsOf } from "../../../test/fake_replicas.ts";
import { scoredBy, type TrainingApp, training } from "../../../test/fake_trainers.ts";
import { fakeClock, until } from "../../../test/harness.ts";
import * as gpu from "../gpu/service.ts";
import * as models from "../models/service.ts";
import { keptOf } from "./checkpoint_files.ts";
import { liveOf } from "./live.ts";
import { placesOf } from "./places.ts";
import { reconcile } from "./reconcile.ts";
import * as jobs from "./service.ts";
import { trainingEvents, trainingSamples } from "./table.ts";

setDefaultTimeout(60_000); // each starts several processes
const open: TrainingApp[] = [];
const app = async (...args: Parameters<typeof training>) => {
  const made = await training(...args);
  open.push(made);
  return made;
};
afterEach(async () => {
  for (const each of open.splice(0)) await each.close().then(each.remove);
});

const steps = (on: TrainingApp, id: string) => on.metrics(id).map(({ step }) => step);
const notesOf = (on: TrainingApp, id: string) =>
  on.ctx.db
    .select()
    .from(trainingEvents)
    .all()
    .filter(({ jobId }) => jobId === id);
const leases = (on: TrainingApp) =>
  on.ctx.db.$client.query<{ holder: string }, []>("SELECT holder FROM gpu_leases").all();

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
  expect(steps(on, id)).toEqual([1, 2, 3, 4, 5]);
  expect(eventsOf(on, id)).toEqual(["job.provisioning", "job.running", "job.completed"]);
  const model = models.byJob(on.ctx, on.workspaceA, id);
  expect(model).toMatchObject({ status: "ready", source: "training_job", name: job.outputName });
  expect(notesOf(on, id).filter(({ level }) => level === "warn")).toMatchObject([{ type: "kl_blow_up" }]);
  await until("the memory to be free", () => leases(on).length === 0);
  await until("the process to be forgotten", () => liveOf(on.ctx.db).runs.size === 0);
});

test("of the checkpoints the newest and the best stay, and files go with them", async () => {
  const on = await app();
  const id = on.add({ totalSteps: 8, saveSteps: 1, keepLast: 1 });
  const job = await on.reaches(id, "completed");
  const losses = on.metrics(id).map((point) => (point as unknown as { loss: number }).loss);
  const best = losses.indexOf(Math.min(...losses)) + 1;
  const kept = keptOf(on.ctx.db, id);
  expect(kept.map(({ step }) => step)).toEqual([...new Set([best, 8])]);
  expect(kept.find(({ id: each }) => each === job.bestCheckpointId)?.step).toBe(best);
  const names = () => readdirSync(placesOf(on.ctx, id).checkpoints).sort();
  await until("the others to be gone", () => names().length === kept.length);
  expect(names()).toEqual(kept.map(({ step }) => `step-00000${step}`));
});

test("a worker that dies is started again from its newest checkpoint, and tells the same", async () => {
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
  const begun = notesOf(on, id).filter(({ type }) => type === "job.running");
  expect(begun.map(({ data }) => data["step"])).toEqual([0, 2]);
  expect(steps(on, id)).toEqual([1, 2, 3, 4]);
  expect(keptOf(on.ctx.db, id).map(({ step }) => step)).toEqual([2, 4]);
});

test("what is told of steps after the checkpoint is forgotten, samples too, and comes again", async () => {
  const on = await app({
    lives: [
      { crashAt: 4, score: 2 },
      { score: 2, wait: { step: 3, gate: "/nowhere" } },
    ],
  });
  const id = on.add({ rewards: scoredBy("def reward(completions, **kw): return [1.0] * len(completions)") });
  await until("the second run", () => on.starts().length === 2 && on.row(id).status === "running");
  expect(steps(on, id)).toEqual([1, 2]);
  expect(on.row(id).step).toBe(2);
  const samples = on.ctx.db.select().from(trainingSamples).all();
  expect(samples.map(({ step, reward }) => [step, reward])).toEqual([1, 1, 2, 2].map((step) => [step, 1]));
});

test("a worker that never gets further is given up", async () => {
  const on = await app({ lives: [{ crashAt: 1 }], flags: { "training.crash_limit": 2 } });
  const id = on.add();
  const job = await on.reaches(id, "failed");
  expect(job.error).toMatchObject({ code: "worker_crashed" });
  expect(job.error?.message).toContain("2 times without progress");
  expect(on.starts()).toHaveLength(2);
});

test("memory that runs out is tried once more with less, then it is the end", async () => {
  const on = await app({ lives: [{ trouble: "lacking_memory" }, {}] });
  const id = on.add();
  expect(await on.reaches(id, "completed")).toMatchObject({ microDivisor: 4 });
  on.relive([{ trouble: "lacking_memory" }]);
  const second = on.add();
  const job = await on.reaches(second, "failed");
  expect(job.error).toMatchObject({ code: "out_of_memory", param: "/hyperparameters" });
  expect(job.error?.message).toContain("estimated");
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

test("a reward that cannot be run fails the job in words", async () => {
  const on = await app({ lives: [{ score: 1 }] });
  const rewards = scoredBy("def reward(completions:\n  return 1");
  const job = await on.reaches(on.add({ method: "grpo", rewards }), "failed", 20_000);
  expect(job.error?.code).toBe("reward_error");
  expect(job.error?.message).toContain("line 1");
});

test("a base model that is gone, a dataset that is gone: failed with the field", async () => {
  const on = await app();
  const model = await on.reaches(on.add({ baseModel: "none" }), "failed");
  expect(model.error).toMatchObject({ code: "provisioning_failed", param: "/base_model" });
  const rows = await on.reaches(on.add({ snapshotNumber: 9 }), "failed");
  expect(rows.error).toMatchObject({ code: "dataset_error", param: "/dataset" });
  expect(leases(on)).toEqual([]);
});

test("what can never fit fails; what does not fit now waits with a reason", async () => {
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

test("jobs run by priority, so many at a time", async () => {
  const on = await app({ loop: false });
  const low = on.add({ priority: -1 });
  const normal = on.add();
  const high = on.add({ priority: 1 });
  const order: string[] = [];
  await until("all to be done", async () => {
    await reconcile(on.ctx);
    for (const id of [low, normal, high]) if (on.row(id).status === "completed" && !order.includes(id)) order.push(id);
    expect(liveOf(on.ctx.db).runs.size).toBeLessThanOrEqual(1);
    return order.length === 3;
  });
  expect(order).toEqual([high, normal, low]);
});

test("a paused job saves and ends, and goes on where it was", async () => {
  const on = await app({ lives: [{ stepMs: 5 }] });
  const id = on.add({ totalSteps: 400, saveSteps: 0 });
  await until("some steps", () => on.row(id).step > 3);
  jobs.pause(on.ctx, on.workspaceA, id);
  await until("the worker to be gone", () => liveOf(on.ctx.db).runs.size === 0);
  const paused = on.row(id);
  expect(paused).toMatchObject({ status: "paused", runSince: null });
  expect(keptOf(on.ctx.db, id).map(({ step }) => step)).toEqual([paused.step]);
  on.relive([{}]);
  jobs.resume(on.ctx, on.workspaceA, id);
  await on.reaches(id, "completed", 20_000);
  expect(steps(on, id)).toEqual(Array.from({ length: 400 }, (_, i) => i + 1));
});

test("resumed before its worker has ended, a job waits for that", async () => {
  const on = await app({ lives: [{ stepMs: 5, deaf: true }, {}] });
  const id = on.add({ totalSteps: 60, saveSteps: 0 });
  await until("a step", () => on.row(id).step > 0);
  jobs.pause(on.ctx, on.workspaceA, id);
  jobs.resume(on.ctx, on.workspaceA, id);
  expect(on.row(id).status).toBe("queued");
  await on.reaches(id, "completed", 20_000);
  expect(steps(on, id)).toHaveLength(60);
  expect(on.starts()).toHaveLength(1); // the first run made all of it, though nobody waited for it any more
});

test("a job is cancelled in every state it can be in", async () => {
  const on = await app({ lives: [{ gate: "/nowhere" }], flags: { "training.parallel": 1 } });
  const loading = on.add();
  await on.reaches(loading, "provisioning");
  const waiting = on.add();
  expect(jobs.cancel(on.ctx, on.workspaceA, waiting).status).toBe("cancelled");
  expect(jobs.cancel(on.ctx, on.workspaceA, loading).status).toBe("cancelling");
  const job = await on.reaches(loading, "cancelled");
  expect(job.completedAt).not.toBeNull();
  on.relive([{ stepMs: 5 }]);
  const running = on.add({ totalSteps: 10_000 });
  await until("a step", () => on.row(running).step > 0);
  jobs.cancel(on.ctx, on.workspaceA, running);
  await on.reaches(running, "cancelled");
  const paused = on.add({ totalSteps: 10_000 });
  await until("a step", () => on.row(paused).step > 0);
  jobs.pause(on.ctx, on.workspaceA, paused);
  expect(jobs.cancel(on.ctx, on.workspaceA, paused).status).toBe("cancelled");
  await until("no process is left", () => liveOf(on.ctx.db).runs.size === 0);
  expect(leases(on)).toEqual([]);
});

test("a job that runs too long fails, and its worker ends", async () => {
  const clock = fakeClock();
  const on = await app({ clock, lives: [{ stepMs: 5 }], loop: false });
  const id = on.add({ maxRuntimeMs: 600_000, totalSteps: 1e6, rateMicros: 6_000_000 });
  await until("it to run", async () => {
    await reconcile(on.ctx);
    return on.row(id).step > 0;
  });
  clock.advance(600_000);
  await reconcile(on.ctx);
  expect(on.row(id)).toMatchObject({ status: "failed", error: { code: "timeout" }, runMs: 600_000, costMicros: 1e6 });
  clock.advance(20_000);
  await until("its worker to be gone", () => liveOf(on.ctx.db).runs.size === 0);
});

test("a job that has cost what it may fails", async () => {
  const clock = fakeClock();
  const on = await app({ clock, lives: [{ stepMs: 5 }], loop: false });
  const id = on.add({ rateMicros: 3_600_000, maxCostMicros: 5_000, totalSteps: 1e6 });
  await until("it to run", async () => {
    await reconcile(on.ctx);
    return on.row(id).step > 0;
  });
  clock.advance(4_999);
  await reconcile(on.ctx);
  expect(on.row(id).status).toBe("running");
  clock.advance(1);
  await reconcile(on.ctx);
  expect(on.row(id)).toMatchObject({ status: "failed", error: { code: "cost_limit" }, costMicros: 5_000 });
});

test("a server that stops lets its trainers save, and the next goes on from there", async () => {
  const on = await app({ lives: [{ stepMs: 5 }, {}] });
  const id = on.add({ totalSteps: 300, saveSteps: 0 });
  await until("some steps", () => on.row(id).step > 3);
  await on.close();
  open.splice(open.indexOf(on), 1);
  const again = await app({ dir: on.dir, lives: [{ stepMs: 5 }, {}] });
  expect(again.row(id).runSince).toBeNull();
  const [saved] = keptOf(again.ctx.db, id);
  expect(saved?.step).toBeGreaterThan(3);
  await again.reaches(id, "completed", 20_000);
  expect(steps(again, id)).toHaveLength(300);
  expect(notesOf(again, id).map(({ message }) => message)).toContain(
    "The server was restarted: it goes on from its newest checkpoint",
  );
});

test("a server that died between the last checkpoint and the end completes without a trainer", async () => {
  const on = await app({ loop: false });
  const id = on.add();
  const dir = join(placesOf(on.ctx, id).checkpoints, "step-000005");
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, "state.json"), JSON.stringify({ step: 5 }));
  writeFileSync(join(dir, "adapter.gguf"), new Uint8Array(await Bun.file(join(on.dir, "adapter.gguf")).arrayBuffer()));
  mkdirSync(join(placesOf(on.ctx, id).checkpoints, ".verk-tmp-1"));
  await until("it to be complete", async () => {
    await reconcile(on.ctx);
    return on.row(id).status === "completed";
  });
  expect(on.starts()).toEqual([]);
  expect(existsSync(join(placesOf(on.ctx, id).checkpoints, ".verk-tmp-1"))).toBe(false);
});

test("a result that is no model counts as a crash, and the job fails in the end", async () => {
  const on = await app({ flags: { "training.crash_limit": 2 }, lives: [{ adapter: "/etc/hostname" }] });
  const job = await on.reaches(on.add(), "failed");
  expect(job.error?.code).toBe("worker_crashed");
  expect(job.error?.message).toContain("result");
});

test("twenty kills at random moments change nothing of what a job tells", async () => {
  const on = await app({ lives: [{ stepMs: 3 }], flags: { "training.crash_limit": 1000 } });
  const id = on.add({ totalSteps: 1200, saveSteps: 3 });
  let furthest = 0;
  for (let killed = 0; killed < 20; killed++) {
    await until("another worker, a step further", () => on.starts().length > killed && on.row(id).step > furthest);
    await Bun.sleep(Math.random() * 25); // a moment nobody chose
    process.kill(Number(on.starts().at(-1)), "SIGKILL");
    await until("its end", () => !liveOf(on.ctx.db).runs.has(id) || on.starts().length > killed + 1);
    furthest = Math.max(furthest, on.row(id).crashStep);
  }
  on.relive([{}]);
  await until("the last of them", () => on.starts().length === 21);
  process.kill(Number(on.starts().at(-1)), "SIGKILL"); // and once more, to go on faster
  await on.reaches(id, "completed", 60_000);
  const calm = on.add({ totalSteps: 1200, saveSteps: 3 });
  await on.reaches(calm, "completed", 20_000);
  expect(on.metrics(id)).toEqual(on.metrics(calm));
  expect(on.starts()).toHaveLength(23);
}, 120_000);
