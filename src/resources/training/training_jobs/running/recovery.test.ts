// tier: all (trains models)
import { Database } from "bun:sqlite";
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventsOf } from "../../../../../test/fake_replicas.ts";
import { manyTrainings, scoredBy, type TrainingApp } from "../../../../../test/fake_trainers.ts";
import { jobPaths } from "../../../../../test/foreign_paths.ts";
import { atEveryFailpoint, fakeClock, until } from "../../../../../test/harness.ts";
import { SCORES } from "../../../../../test/jobs_kit.ts";
import { randomFor, sweep } from "../../../../../test/sweep.ts";
import { durable } from "../../../../platform/db/db.ts";
import * as modelResults from "../../../serving/models/results.ts";
import * as jobs from "../service.ts";
import { alignCheckpoints, keptCheckpoints } from "../state/checkpoint_files.ts";
import * as moves from "../state/moves.ts";
import { reconcile } from "./reconcile.ts";
import { finish } from "./results.ts";

setDefaultTimeout(120_000); // each starts several processes
const { app, close, closeAll } = manyTrainings();
afterEach(closeAll);

test("a paused job saves and ends, and resumes where it was", async () => {
  const on = await app({ lives: [{ stepMs: 5 }] });
  const id = on.add({ totalSteps: 400, saveSteps: 0 });
  await until("some steps", () => on.row(id).step > 3);
  jobs.pause(on.ctx, on.workspaceA, id);
  await until("the worker to be gone", () => on.ctx.state.trainingJobs.runCount === 0);
  const paused = on.row(id);
  expect(paused).toMatchObject({ status: "paused", runSince: null });
  expect(keptCheckpoints(on.ctx.db, id).map(({ step }) => step)).toEqual([paused.step]);
  on.relive([{}]);
  jobs.resume(on.ctx, { workspaceId: on.workspaceA, keyId: null }, id);
  await on.reaches(id, "completed", 20_000);
  expect(on.steps(id)).toEqual(Array.from({ length: 400 }, (_, i) => i + 1));
});

test("a job that is resumed before its worker has ended waits for that worker", async () => {
  const on = await app({ lives: [{ stepMs: 5, deaf: true }, {}] });
  const id = on.add({ totalSteps: 60, saveSteps: 0 });
  await until("a step", () => on.row(id).step > 0);
  jobs.pause(on.ctx, on.workspaceA, id);
  jobs.resume(on.ctx, { workspaceId: on.workspaceA, keyId: null }, id);
  expect(on.row(id).status).toBe("queued");
  await on.reaches(id, "completed", 20_000);
  expect(on.steps(id)).toHaveLength(60);
  expect(on.starts()).toHaveLength(1); // the first run made all steps
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
  await until("no process is left", () => on.ctx.state.trainingJobs.runCount === 0);
  expect(on.leases()).toEqual([]);
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
  await until("its worker to be gone", () => on.ctx.state.trainingJobs.runCount === 0);
});

test("a job that reaches its cost limit fails", async () => {
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

test("a server that stops lets its trainers save, and the next server resumes from there", async () => {
  const on = await app({ lives: [{ stepMs: 5 }, {}] });
  const id = on.add({ totalSteps: 300, saveSteps: 0 });
  await until("some steps", () => on.row(id).step > 3);
  await close(on);
  const db = new Database(join(on.dir, "verk.db"), { readonly: true }); // the next server may start the job at once
  expect(db.query("SELECT run_since FROM training_jobs").get()).toEqual({ run_since: null });
  db.close();
  const again = await app({ dir: on.dir, lives: [{ stepMs: 5 }, {}] });
  const [saved] = keptCheckpoints(again.ctx.db, id);
  expect(saved?.step).toBeGreaterThan(3);
  await again.reaches(id, "completed", 20_000);
  expect(again.steps(id)).toHaveLength(300);
  expect(again.notes(id).map(({ message }) => message)).toContain(
    "The server restarted; resuming from the newest checkpoint",
  );
});

test("after a kill of the server running jobs are queued again, and their time counts up to the last activity", async () => {
  const clock = fakeClock();
  const on = await app({ clock, loop: false });
  const now = clock.now();
  const ran = {
    gpu: { type: "cpu", count: 1 },
    runSince: now - 60_000,
    runUntil: now - 24_000,
    rateMicros: 3_600_000,
  };
  const running = on.add({ status: "running", ...ran });
  const loading = on.add({ status: "provisioning", ...ran, notBefore: 9e15 });
  const cancelling = on.add({ status: "cancelling", ...ran });
  const paused = on.add({ status: "paused", ...ran });
  moves.requeueInterrupted(on.ctx);
  const used = { runMs: 36_000, costMicros: 36_000, runSince: null };
  expect(on.row(running)).toMatchObject({ status: "queued", ...used });
  expect(on.row(loading)).toMatchObject({ status: "queued", notBefore: 0 });
  expect(on.row(cancelling)).toMatchObject({ status: "cancelled", completedAt: now });
  expect(on.row(paused)).toMatchObject({ status: "paused", ...used });
});

test("wherever it crashes, a completed job and its model exist together or not at all", async () => {
  await atEveryFailpoint(async (attempt) => {
    const on = await app({ loop: false });
    const id = on.add({ status: "running", totalSteps: 5 });
    await checkpointOf(on, id, 5);
    await alignCheckpoints(on.ctx, on.row(id));
    await durable(on.ctx.db);
    await attempt(() => finish(on.ctx, id).then(() => durable(on.ctx.db)));
    const isComplete = on.row(id).status === "completed";
    expect(modelResults.byJob(on.ctx, on.workspaceA, id) !== undefined).toBe(isComplete);
    await close(on);
    const after = await app({ dir: on.dir, loop: false });
    await until("it to be complete", async () => {
      await reconcile(after.ctx);
      return after.row(id).status === "completed";
    });
    expect(eventsOf(after, id).filter((type) => type === "job.completed")).toHaveLength(1);
    expect(modelResults.byJob(after.ctx, after.workspaceA, id)).toMatchObject({ status: "ready", checkpointStep: 5 });
    expect(after.starts()).toEqual([]);
  });
}, 300_000);

/** A checkpoint like those of a trainer. */
async function checkpointOf(on: TrainingApp, id: string, step: number) {
  const dir = join(jobPaths(on.ctx, id).checkpoints, `step-${String(step).padStart(6, "0")}`);
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, "state.json"), JSON.stringify({ step }));
  writeFileSync(join(dir, "adapter.gguf"), new Uint8Array(await Bun.file(join(on.dir, "adapter.gguf")).arrayBuffer()));
}

test("a server that died between the last checkpoint and the end completes without a trainer", async () => {
  const on = await app({ loop: false });
  const id = on.add();
  await checkpointOf(on, id, 5);
  mkdirSync(join(jobPaths(on.ctx, id).checkpoints, ".verk-tmp-1"));
  await until("it to be complete", async () => {
    await reconcile(on.ctx);
    return on.row(id).status === "completed";
  });
  expect(on.starts()).toEqual([]);
  expect(existsSync(join(jobPaths(on.ctx, id).checkpoints, ".verk-tmp-1"))).toBe(false);
});

test("D9 no report is lost: a checkpoint whose steps were never reported brings their metrics, samples, alarms and its event", async () => {
  const on = await app({ lives: [{ muteFrom: 4, alarmAt: 5, score: 2, crashAt: 7 }, { score: 2 }] });
  const id = on.add({ method: "grpo", rewards: scoredBy(SCORES), totalSteps: 8, saveSteps: 3 });
  await on.reaches(id, "completed", 30_000);
  expect(on.steps(id)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  const notes = on.notes(id);
  expect(notes.filter(({ type }) => type === "checkpoint").map(({ data }) => data["step"])).toEqual([3, 6, 8]);
  expect(notes.filter(({ type }) => type === "kl_blow_up")).toHaveLength(1);
  const samples = (await on.call("GET", `/v1/training_jobs/${id}/samples?step=5`)).body.data;
  expect(samples.map(({ completion }: { completion: string }) => completion)).toEqual(["answer 5.0", "answer 5.1"]);
  const calm = on.add({ method: "grpo", rewards: scoredBy(SCORES), totalSteps: 8, saveSteps: 3 });
  await on.reaches(calm, "completed", 30_000);
  expect(on.metrics(id)).toEqual(on.metrics(calm));
});

test("D9 a run that breaks off and fails for good keeps the steps of its checkpoints", async () => {
  const on = await app({ lives: [{ muteFrom: 3, lieAt: 6 }] });
  const id = on.add({ totalSteps: 9, saveSteps: 2 });
  await on.reaches(id, "failed", 30_000);
  const last = keptCheckpoints(on.ctx.db, id).at(-1)?.step ?? 0;
  expect(last).toBeGreaterThanOrEqual(4);
  expect(on.steps(id)).toEqual(Array.from({ length: last }, (_, i) => i + 1));
  expect(on.row(id).step).toBe(last);
});

test("a result that is not a model counts as a crash, and the job fails in the end", async () => {
  const on = await app({ flags: { "training.crash_limit": 2 }, lives: [{ adapter: "/etc/hostname" }] });
  const job = await on.reaches(on.add(), "failed");
  expect(job.error?.code).toBe("worker_crashed");
  expect(job.error?.message).toContain("result");
});

const KILLS = sweep({ quick: 2, full: 20 });
const STEPS = 60 * KILLS; // more than the lives up to the last kill can make

test(`${KILLS} kills at random moments change nothing in the reports of a job`, async () => {
  const on = await app({ lives: [{ stepMs: 10 }], flags: { "training.crash_limit": 1000 } });
  const id = on.add({ totalSteps: STEPS, saveSteps: 3 });
  const random = randomFor("trainer kills at random moments");
  let furthest = 0;
  for (let killed = 0; killed < KILLS; killed++) {
    await until("another worker, a step further", () => on.starts().length > killed && on.row(id).step > furthest);
    await Bun.sleep(random() * 25); // a random moment
    on.killLast();
    await until("its end", () => !on.ctx.state.trainingJobs.run(id) || on.starts().length > killed + 1);
    furthest = Math.max(furthest, on.row(id).crashStep);
  }
  on.relive([{}]);
  await until("the last of them", () => on.starts().length === KILLS + 1);
  on.killLast(); // and once more, to go on faster
  await on.reaches(id, "completed", 60_000);
  const calm = on.add({ totalSteps: STEPS, saveSteps: 3 });
  await on.reaches(calm, "completed", 60_000);
  expect(on.metrics(id)).toEqual(on.metrics(calm));
  expect(on.starts()).toHaveLength(KILLS + 3);
}, 300_000);
