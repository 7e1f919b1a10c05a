import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { eq } from "drizzle-orm";
import { fakeNode } from "../../../../../test/fake_node.ts";
import { manyTrainings, type TrainingApp } from "../../../../../test/fake_trainers.ts";
import { jobPaths } from "../../../../../test/foreign_paths.ts";
import { until } from "../../../../../test/harness.ts";
import { write } from "../../../../platform/db/db.ts";
import { SlurmSettings } from "../../../../platform/providers/slurm_text.ts";
import { NodeError } from "../../../../platform/providers/types.ts";
import type { FromTrainer } from "../../../../workers/protocol_trainer.ts";
import { changeRun, openRunOf } from "../remote_runs.ts";
import { reconcile } from "../running/reconcile.ts";
import * as jobs from "../service.ts";
import { keptCheckpoints } from "../state/checkpoint_files.ts";
import { requeueInterrupted } from "../state/moves.ts";
import { trainingJobs } from "../table.ts";
import { wish } from "./sync.ts";

setDefaultTimeout(60_000);
const { app, closeAll } = manyTrainings();
afterEach(closeAll);

const begun: FromTrainer = { type: "begun", step: 0, total_steps: 5, device: "a node", memory_bytes: 1 };
const step = (n: number): FromTrainer => ({
  type: "step",
  step: n,
  epoch: 0,
  values: { loss: 1 / n },
  eta_ms: null,
  samples: [],
  alarms: [],
});
const checkpoint = (n: number): FromTrainer => ({
  type: "checkpoint",
  step: n,
  path: `/far/checkpoints/step-00000${n}`,
  size_bytes: 1,
  metrics: { loss: 1 / n },
});
const log = (line: string): FromTrainer => ({ type: "log", stream: "stdout", line });
const trained = { type: "trained", stopped_early: null } as FromTrainer;

async function started(on: TrainingApp, node: ReturnType<typeof fakeNode>) {
  const id = on.add({ region: node.region, provider: "ssh" });
  await launched(on, id);
  await node.sync();
  return { id, handle: { job: id, attempt: 1 } };
}

/** A remote launch is not awaited by the loop. */
async function launched(on: TrainingApp, id: string) {
  await reconcile(on.ctx);
  await until("the run", () => openRunOf(on.ctx.db, id));
}

const linesOf = async (on: TrainingApp, id: string) =>
  (await Bun.file(`${jobPaths(on.ctx, id).dir}/log.ndjson`).text()).trim().split("\n");

test("a run on a node goes through the same door as one of this machine", async () => {
  const on = await app({ loop: false, flags: { "training.parallel": 1 } });
  const node = fakeNode(on);
  const { id, handle } = await started(on, node);
  expect(on.row(id).status).toBe("provisioning");
  expect(on.ctx.state.trainingJobs.runCount).toBe(0);
  expect(node.submissions).toHaveLength(1);
  const [{ plan, inputs } = { plan: undefined, inputs: [] }] = node.submissions;
  expect(inputs.map(({ path }) => path.replace(/[0-9a-f]{64}/, "SHA"))).toEqual([
    "models/SHA.gguf",
    `jobs/${id}/inputs/rows.db`,
  ]);
  expect(plan).toMatchObject({ handle, gpus: 0, rewards: null, task: { resume: null } });
  node.says(handle, begun, log("hello"), step(1), step(2), checkpoint(2));
  await node.sync();
  expect(on.row(id)).toMatchObject({ status: "running", step: 2 });
  expect(keptCheckpoints(on.ctx.db, id).map(({ step }) => step)).toEqual([2]);
  node.says(handle, step(3), step(4), step(5), checkpoint(5), trained);
  node.ends(handle, { kind: "done" });
  await node.sync();
  expect(on.row(id)).toMatchObject({ status: "completed", step: 5, runSince: null });
  await node.sync();
  expect(node.removed).toEqual([id]);
  expect(openRunOf(on.ctx.db, id)).toBeUndefined();
  expect(on.notes(id).map(({ type }) => type)).toContain("job.completed");
});

test("records that come twice after a kill change nothing, and the log is cut back", async () => {
  const on = await app({ loop: false });
  const node = fakeNode(on);
  const { id, handle } = await started(on, node);
  const before = openRunOf(on.ctx.db, id)!;
  node.says(handle, begun, log("one"), step(1), log("two"), step(2), checkpoint(2));
  await node.sync();
  const notes = on.notes(id);
  const lines = await linesOf(on, id);
  write(on.ctx.db, (tx) => changeRun(tx, before, { ...before, state: "running" })); // the last commit is lost
  requeueInterrupted(on.ctx); // the next server
  expect(on.row(id).status).toBe("running");
  await node.sync();
  expect(on.notes(id)).toEqual(notes);
  const shown = (await linesOf(on, id)).map((line) => JSON.parse(line).line);
  expect(shown).toEqual(lines.map((line) => JSON.parse(line).line));
  expect(on.steps(id)).toEqual([1, 2]);
  expect(openRunOf(on.ctx.db, id)?.runEnd.steps).toBe(2);
  expect(node.submissions).toHaveLength(1);
});

test("a link that is cut changes nothing", async () => {
  const on = await app({ loop: false });
  const node = fakeNode(on);
  const { id, handle } = await started(on, node);
  node.says(handle, begun, step(1));
  node.link.isCut = true;
  await node.sync();
  await reconcile(on.ctx);
  expect(on.row(id)).toMatchObject({ status: "provisioning", step: 0, crashes: 0 });
  node.link.isCut = false;
  await node.sync();
  expect(on.row(id)).toMatchObject({ status: "running", step: 1 });
});

test("pause, resume and cancel reach the node as requests", async () => {
  const on = await app({ loop: false });
  const node = fakeNode(on);
  const { id, handle } = await started(on, node);
  node.says(handle, begun, step(1));
  await node.sync();
  jobs.pause(on.ctx, on.workspaceA, id);
  await node.sync();
  expect(node.runOf(handle).requests).toEqual(["save"]);
  node.says(handle, checkpoint(1), { type: "saved" } as FromTrainer);
  node.ends(handle, { kind: "done" });
  await node.sync();
  expect(on.row(id)).toMatchObject({ status: "paused", runSince: null });
  jobs.resume(on.ctx, { workspaceId: on.workspaceA, keyId: null }, id);
  await launched(on, id);
  await node.sync();
  const second = { job: id, attempt: 2 };
  expect(node.submissions[1]?.plan).toMatchObject({
    handle: second,
    task: { resume: `jobs/${id}/checkpoints/step-000001` },
  });
  jobs.cancel(on.ctx, on.workspaceA, id);
  await reconcile(on.ctx);
  expect(on.row(id).status).toBe("cancelling");
  await node.sync();
  expect(node.runOf(second).requests).toEqual(["stop"]);
  node.ends(second, { kind: "stopped" });
  await node.sync();
  expect(on.row(id).status).toBe("cancelled");
});

test("a lost run is followed by an attempt after its newest checkpoint, which no record may name", async () => {
  const on = await app({ loop: false });
  const node = fakeNode(on);
  const { id, handle } = await started(on, node);
  node.says(handle, begun, step(1));
  node.saved.add("step-000003");
  node.runOf(handle).state = "lost";
  await node.sync();
  expect(on.row(id)).toMatchObject({ status: "queued" });
  expect(keptCheckpoints(on.ctx.db, id).map(({ step }) => step)).toEqual([3]);
});

test("a record that cannot be read fails the job, and its run is stopped", async () => {
  const on = await app({ loop: false });
  const node = fakeNode(on);
  const { id, handle } = await started(on, node);
  node.says(handle, begun, { type: "nonsense" } as never);
  await node.sync();
  expect(on.row(id)).toMatchObject({ status: "failed", error: { code: "worker_crashed" } });
  await node.sync();
  expect(node.runOf(handle).requests).toEqual(["stop"]);
  expect(node.removed).toEqual([]);
  node.runOf(handle).state = "ended";
  await node.sync();
  expect(node.removed).toEqual([id]);
});

test("a region runs one job at a time, and the next says what it waits for", async () => {
  const on = await app({ loop: false });
  const node = fakeNode(on);
  const { id } = await started(on, node);
  const next = on.add({ region: node.region, provider: "ssh" });
  await reconcile(on.ctx);
  expect(on.row(next)).toMatchObject({ status: "queued", queueReason: `waits for ${node.region}, which runs ${id}` });
  const refused = await on.call("DELETE", `/v1/regions/${node.region}`);
  expect([refused.status, refused.body.error.code]).toEqual([400, "unsupported_state"]);
});

const SLURM = SlurmSettings.parse({ max_jobs: 2 });

test("a cluster takes several jobs; one that waits in its queue costs nothing and is cancelled there", async () => {
  const on = await app({ loop: false });
  const node = fakeNode(on, { kind: "slurm", slurm: SLURM });
  const { id, handle } = await started(on, node);
  const [next, last] = [on.add({ region: node.region }), on.add({ region: node.region })];
  await launched(on, next);
  await reconcile(on.ctx);
  expect([on.row(next).status, on.row(last).status]).toEqual(["provisioning", "queued"]);
  node.runOf(handle).state = "ready";
  const runSince = on.ctx.clock.now() - 60_000;
  write(on.ctx.db, (tx) => tx.update(trainingJobs).set({ runSince }).where(eq(trainingJobs.id, id)).run());
  await node.sync();
  expect(on.row(id).runSince).toBeGreaterThan(runSince + 50_000);
  jobs.cancel(on.ctx, on.workspaceA, id);
  await node.sync();
  expect(node.runOf(handle).requests).toEqual(["stop"]);
  Object.assign(node.runOf(handle), { state: "lost", lost: { kind: "stopped", message: "" } });
  await node.sync();
  expect(on.row(id).status).toBe("cancelled");
});

test("the reason of a scheduler for the end of a run decides how the job goes on", async () => {
  const on = await app({ loop: false });
  const node = fakeNode(on, { kind: "slurm", slurm: SLURM });
  const { id, handle } = await started(on, node);
  node.says(handle, begun, step(1));
  Object.assign(node.runOf(handle), { state: "lost", lost: { kind: "config", message: "Someone cancelled it" } });
  await node.sync();
  expect(on.row(id)).toMatchObject({
    status: "failed",
    error: { code: "provisioning_failed", message: "Someone cancelled it" },
  });
});

test("an attempt that failed to start may not start later; the next one takes its place", async () => {
  const on = await app({ loop: false });
  const node = fakeNode(on);
  const { submit } = node.provider;
  node.provider.submit = async (submission) => {
    await submit(submission);
    throw new NodeError("a command ended with code 1");
  };
  const { id, handle } = await started(on, node);
  expect(node.runOf(handle).requests).toEqual(["stop"]);
  expect(on.row(id)).toMatchObject({ status: "queued", crashes: 1 });
});

test("a run of a machine that has not begun is started again: the attempt before it may still have held the lock", async () => {
  const on = await app({ loop: false });
  const node = fakeNode(on);
  const { handle } = await started(on, node);
  node.runOf(handle).state = "ready";
  node.provider.start = async (again) => {
    node.runOf(again).state = "running";
  };
  await node.sync();
  expect(node.runOf(handle).state).toBe("running");
});

test.each([
  ["running", "go on"],
  ["paused", "save"],
  ["queued", "save"],
  ["cancelling", "stop"],
  ["failed", "stop"],
] as const)("the run of a job that is %s should %s", (status, expected) => {
  expect(wish(status)).toBe(expected);
});
