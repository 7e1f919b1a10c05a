import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { eventsOf } from "../../../../../test/fake_replicas.ts";
import { manyTrainings, type TrainingApp } from "../../../../../test/fake_trainers.ts";
import { atEveryFailpoint, fakeClock, until } from "../../../../../test/harness.ts";
import { events } from "../../../../events/table.ts";
import { durable } from "../../../../platform/db/db.ts";
import * as billing from "../../../money/billing/service.ts";
import { judgeCredit } from "../policy.ts";
import { reconcile } from "../running/reconcile.ts";
import * as jobs from "../service.ts";
import type { JobRow } from "../table.ts";
import { keptCheckpoints } from "./checkpoint_files.ts";
import * as moves from "./moves.ts";

setDefaultTimeout(60_000); // each starts several processes
const { app, close, closeAll } = manyTrainings();
afterEach(closeAll);

const RATE = 36_000_000; // a cent a second
const ticking = (on: TrainingApp, what: string, done: () => unknown) =>
  until(
    what,
    async () => {
      await reconcile(on.ctx);
      return done();
    },
    20_000,
  );

test("a job that runs out of credit is paused with its work saved, and resumes when credit is granted", async () => {
  const clock = fakeClock();
  const on = await app({
    clock,
    loop: false,
    lives: [{ stepMs: 5 }],
    flags: { "billing.initial_credit_usd": 10, "training.parallel": 2 },
  });
  const free = on.add({ totalSteps: 1e6 });
  const id = on.add({ totalSteps: 1e6, saveSteps: 0, rateMicros: RATE });
  await ticking(on, "both to run", () => on.row(id).step > 3 && on.row(free).step > 0);
  clock.advance(999_000);
  await reconcile(on.ctx);
  expect(on.row(id).status).toBe("running");
  clock.advance(1_000);
  await reconcile(on.ctx);
  expect(on.row(id)).toMatchObject({ status: "paused", pauseReason: "out of credit" });
  await ticking(on, "its worker to save and end", () => on.ctx.state.trainingJobs.runCount === 1);
  const paused = on.row(id);
  expect(keptCheckpoints(on.ctx.db, id).map(({ step }) => step)).toEqual([paused.step]);
  expect([paused.runSince, paused.costMicros]).toEqual([null, 10_000_000]);
  expect(billing.balanceMicros(on.ctx, on.workspaceA)).toBe(0);
  const emitted = on.ctx.db.select().from(events).all();
  expect(emitted.find(({ type }) => type === "job.paused")?.data).toMatchObject({ id, reason: "out of credit" });
  expect(on.notes(id).find(({ type }) => type === "job.paused")?.message).toContain("out of credit");
  await reconcile(on.ctx);
  expect(on.row(id).status).toBe("paused");
  expect(() => jobs.resume(on.ctx, { workspaceId: on.workspaceA, keyId: null }, id)).toThrow(
    "Insufficient credit balance",
  );
  expect(on.row(free).status).toBe("running");

  on.relive([{ stepMs: 20 }]); // without a pause it makes thousands of steps, which are all read before its end
  billing.grant(on.ctx, { workspaceId: on.workspaceA, usd: 1 });
  await reconcile(on.ctx);
  await ticking(on, "it to go on", () => on.row(id).step > paused.step);
  expect(on.steps(id)).toEqual(Array.from({ length: on.row(id).step }, (_, i) => i + 1));
  jobs.cancel(on.ctx, on.workspaceA, id);
  jobs.cancel(on.ctx, on.workspaceA, free);
  await ticking(on, "both to be gone", () => on.ctx.state.trainingJobs.runCount === 0);
});

test("a job that is queued without credit is paused before it starts", async () => {
  const on = await app({ loop: false, flags: { "billing.initial_credit_usd": 0 } });
  const id = on.add({ rateMicros: RATE });
  const free = on.add({ rateMicros: null });
  await ticking(on, "the free one to complete", () => on.row(free).status === "completed");
  expect(on.row(id)).toMatchObject({ status: "paused", pauseReason: "out of credit", runMs: 0 });
  expect(eventsOf(on, id)).toEqual(["job.paused"]);
  billing.grant(on.ctx, { workspaceId: on.workspaceA, usd: 1 });
  expect(on.woken).toContain("training_jobs.reconcile");
  await ticking(on, "it to complete", () => on.row(id).status === "completed");
});

test("only a caller resumes a job that a caller paused: credit does not", () => {
  const job = (status: JobRow["status"], pauseReason: JobRow["pauseReason"] = null) => ({ status, pauseReason });
  for (const short of ["out of credit", "out of budget"] as const) {
    expect(judgeCredit(job("paused", "by request"), short)).toBe("nothing");
    expect(judgeCredit(job("paused", short), null)).toBe("resume");
    expect(judgeCredit(job("paused", "out of credit"), short)).toBe("nothing");
    for (const status of ["queued", "provisioning", "running"] as const)
      expect(judgeCredit(job(status), short)).toBe("pause");
    for (const status of ["cancelling", "completed", "failed", "cancelled"] as const)
      expect(judgeCredit(job(status), short)).toBe("nothing");
  }
  expect(judgeCredit(job("paused", "by request"), null)).toBe("nothing");
  expect(judgeCredit(job("running"), null)).toBe("nothing");
});

test("a job that was being cancelled when the server died is charged up to its last activity", async () => {
  const clock = fakeClock();
  const on = await app({ clock, loop: false });
  const id = on.add({ rateMicros: RATE, status: "cancelling", runSince: clock.now(), runMs: 0 });
  clock.advance(20_000);
  moves.recordActivity(on.ctx, on.row(id));
  clock.advance(86_400_000);
  moves.requeueInterrupted(on.ctx);
  expect(on.row(id)).toMatchObject({ status: "cancelled", runMs: 20_000, costMicros: 200_000 });
});

test("wherever the server is killed, the end of a run is charged once", async () => {
  const crashes = await atEveryFailpoint(async (attempt) => {
    const clock = fakeClock();
    const on = await app({ clock, loop: false });
    const id = on.add({ rateMicros: RATE, status: "running", runSince: clock.now() });
    await durable(on.ctx.db);
    clock.advance(10_000);
    const end = (to: TrainingApp) => moves.fail(to.ctx, id, { code: "timeout", message: "x", param: null });
    await attempt(async () => {
      end(on);
      await durable(on.ctx.db);
    });
    await close(on).catch(() => {});
    const after = await app({ clock, loop: false, dir: on.dir });
    end(after);
    const [row, left] = [after.row(id), billing.balanceMicros(after.ctx, on.workspaceA)];
    expect([row.runSince, row.costMicros + left]).toEqual([null, 100_000_000]);
    expect([0, 100_000]).toContain(row.costMicros); // 0: the start after the kill knew of no second of it
    await closeAll();
  });
  expect(crashes).toBeGreaterThan(2);
});

test("an end that the row's status does not allow is not charged", async () => {
  const clock = fakeClock();
  const on = await app({ clock, loop: false });
  const id = on.add({ rateMicros: RATE, status: "paused", pauseReason: "by request", runSince: clock.now() });
  clock.advance(10_000);
  expect(moves.fail(on.ctx, id, { code: "timeout", message: "x", param: null })).toBeUndefined();
  expect(billing.balanceMicros(on.ctx, on.workspaceA)).toBe(100_000_000);
  moves.suspend(on.ctx, id);
  expect(billing.balanceMicros(on.ctx, on.workspaceA)).toBe(99_900_000);
});
