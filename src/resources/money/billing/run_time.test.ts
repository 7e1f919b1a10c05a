import { afterEach, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { jobRow } from "../../../../test/fake_trainers.ts";
import { fakeClock, manyApps, type TestApp } from "../../../../test/harness.ts";
import { deploymentRow } from "../../../../test/money_deeds.ts";
import { DAY_MS, HOUR_MS } from "../../../lib/units.ts";
import { durable, write } from "../../../platform/db/db.ts";
import * as deploymentMoves from "../../serving/deployments/fleet/moves.ts";
import { deployments } from "../../serving/deployments/table.ts";
import * as jobMoves from "../../training/training_jobs/state/moves.ts";
import { currentJob } from "../../training/training_jobs/state/rows.ts";
import { trainingJobs } from "../../training/training_jobs/table.ts";
import * as billing from "./service.ts";

const RATE = 36_000_000;
const { open, closeAll } = manyApps();
afterEach(closeAll);

/** A job that runs and a deployment that serves, under a clock whose time of day can be set. */
function atWork() {
  const clock = fakeClock();
  const app: TestApp = open({ clock });
  const { ctx, workspaceA: workspaceId } = app;
  const job = jobRow(clock.now(), { workspaceId, datasetId: null, rateMicros: RATE });
  const served = deploymentRow(clock.now(), workspaceId, RATE);
  write(ctx.db, (tx) => {
    tx.insert(trainingJobs).values(job).run();
    tx.insert(deployments).values(served).run();
  });
  jobMoves.provision(ctx, job, undefined);
  jobMoves.markRunning(ctx, job.id, { device: "cpu", memoryBytes: 1 });
  deploymentMoves.move(ctx, served.id, "place");
  deploymentMoves.serve(ctx, served.id);
  const energy = { energyJoules: 5, energyWatts: 100, energyAt: clock.now() };
  write(ctx.db, (tx) => tx.update(trainingJobs).set(energy).where(eq(trainingJobs.id, job.id)).run());
  const jobNow = () => currentJob(ctx.db, job.id)!;
  const servedNow = () => deploymentMoves.current(ctx.db, served.id)!;
  return { app, ctx, clock, jobNow, servedNow, workspaceId };
}

for (const [what, by] of [
  ["back by a day", -DAY_MS],
  ["forward by ten years", 3_650 * DAY_MS],
] as const)
  test(`with the time of day set ${what}, an hour of use is an hour and is charged as one`, async () => {
    const { app, ctx, clock, jobNow, servedNow, workspaceId } = atWork();
    const [jobBefore, servedBefore] = [jobNow(), servedNow()];
    clock.advance(HOUR_MS / 4);
    clock.set(by);
    expect(billing.leftMicros(ctx, workspaceId)).toBe(100_000_000 - RATE / 2);
    expect(billing.burnRate(ctx, workspaceId).active_jobs[0]?.elapsed_seconds).toBe(900);
    expect((await app.call("GET", `/v1/training_jobs/${jobNow().id}`)).body.cost_usd).toBe(9);
    expect((await app.call("GET", `/v1/deployments/${servedNow().id}/metrics`)).body.uptime_seconds).toBe(900);
    expect([jobNow(), servedNow()]).toEqual([jobBefore, servedBefore]); // no row was shifted
    clock.advance((3 * HOUR_MS) / 4);
    deploymentMoves.keepAccount(ctx, servedNow(), 1);
    jobMoves.fail(ctx, jobNow().id, { code: "timeout", message: "x", param: null });
    expect(jobNow()).toMatchObject({ runMs: HOUR_MS, costMicros: RATE, energyJoules: 5 + 100 * 3600 });
    expect(servedNow()).toMatchObject({ uptimeMs: HOUR_MS, totalCostMicros: RATE });
    expect(billing.balanceMicros(ctx, workspaceId)).toBe(100_000_000 - 2 * RATE);
    clock.set(-by);
    clock.advance(HOUR_MS / 2);
    deploymentMoves.move(ctx, servedNow().id, "stop");
    expect(servedNow()).toMatchObject({ uptimeMs: 1.5 * HOUR_MS, totalCostMicros: 1.5 * RATE, upSince: null });
    await durable(ctx.db);
    expect(ctx.state.billing.runs.size).toBe(0);
  });

test("a kill after the time of day was set leaves what was metered before it", () => {
  for (const by of [HOUR_MS, -HOUR_MS]) {
    const { ctx, clock, jobNow } = atWork();
    clock.advance(20_000);
    jobMoves.recordActivity(ctx, jobNow());
    clock.set(by);
    clock.advance(DAY_MS); // the server was dead
    jobMoves.requeueInterrupted(ctx);
    expect(jobNow()).toMatchObject({ status: "queued", runMs: 20_000 });
  }
});

test("a run is metered every 15 seconds of steady time, and no other change of the clock writes its row", () => {
  const { ctx, clock, jobNow } = atWork();
  const { runSince } = jobNow();
  const metered = () => {
    jobMoves.recordActivity(ctx, jobNow());
    return jobNow().runUntil;
  };
  clock.advance(14_999);
  clock.set(HOUR_MS);
  expect(metered()).toBeNull();
  clock.advance(1);
  expect(metered()).toBe(runSince! + 15_000);
  clock.set(-2 * HOUR_MS);
  clock.advance(15_000);
  expect(metered()).toBe(runSince! + 30_000);
});
