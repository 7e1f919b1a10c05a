import { afterEach, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { jobRow } from "../../../test/fake_trainers.ts";
import { fakeClock, manyApps, type TestApp } from "../../../test/harness.ts";
import { deploymentRow } from "../../../test/money_deeds.ts";
import { write } from "../../platform/db/db.ts";
import * as deploymentMoves from "../deployments/fleet/moves.ts";
import { deployments } from "../deployments/table.ts";
import * as jobMoves from "../training_jobs/state/moves.ts";
import { currentJob } from "../training_jobs/state/rows.ts";
import { trainingJobs } from "../training_jobs/table.ts";
import * as meterClock from "./clock.ts";
import * as billing from "./service.ts";

const HOUR = 3_600_000;
const RATE = 36_000_000;
const { open, closeAll } = manyApps();
afterEach(closeAll);

/** A job and a deployment that are at work, under a clock that can be set. */
function atWork() {
  const clock = fakeClock();
  const app: TestApp = open({ clock });
  const { ctx, workspaceA: workspaceId } = app;
  const now = clock.now();
  const job = jobRow(now, { workspaceId, datasetId: null, rateMicros: RATE, status: "running", runSince: now });
  const served = deploymentRow(now, workspaceId, RATE);
  write(ctx.db, (tx) => {
    tx.insert(trainingJobs)
      .values({ ...job, energyJoules: 5, energyWatts: 100, energyAt: now })
      .run();
    tx.insert(deployments)
      .values({ ...served, status: "serving", upSince: now, billedUntil: now })
      .run();
  });
  const jobNow = () => currentJob(ctx.db, job.id)!;
  const servedNow = () => ctx.db.select().from(deployments).where(eq(deployments.id, served.id)).get()!;
  meterClock.followClock(ctx);
  return { ctx, clock, jobNow, servedNow, workspaceId };
}

for (const [what, by] of [
  ["back by a day", -24 * HOUR],
  ["forward by ten years", 87_600 * HOUR],
] as const)
  test(`with the clock set ${what}, an hour of use is an hour, and is charged as one`, () => {
    const { ctx, clock, jobNow, servedNow, workspaceId } = atWork();
    clock.advance(HOUR / 4);
    clock.set(by);
    meterClock.followClock(ctx);
    expect(billing.leftMicros(ctx, workspaceId)).toBe(100_000_000 - RATE / 2);
    expect(billing.burnRate(ctx, workspaceId).active_jobs[0]?.elapsed_seconds).toBe(900);
    clock.advance((3 * HOUR) / 4);
    meterClock.followClock(ctx);
    deploymentMoves.keepAccount(ctx, servedNow(), 1);
    jobMoves.fail(ctx, jobNow().id, { code: "timeout", message: "x", param: null });
    expect(jobNow()).toMatchObject({ runMs: HOUR, costMicros: RATE, energyJoules: 5 + 100 * 3600 });
    expect(servedNow()).toMatchObject({ uptimeMs: HOUR, totalCostMicros: RATE, upSince: clock.now() });
    expect(billing.balanceMicros(ctx, workspaceId)).toBe(100_000_000 - 2 * RATE);
  });

test("a kill after the clock was set leaves what was seen before it", () => {
  for (const by of [HOUR, -HOUR]) {
    const { ctx, clock, jobNow } = atWork();
    clock.advance(20_000);
    jobMoves.recordActivity(ctx, jobNow());
    clock.set(by);
    meterClock.followClock(ctx);
    clock.advance(24 * HOUR); // nobody was at work
    jobMoves.requeueInterrupted(ctx);
    expect(jobNow()).toMatchObject({ status: "queued", runMs: 20_000 });
  }
});

test("a clock that is corrected bit by bit is no news to the rows", () => {
  const { ctx, clock, jobNow } = atWork();
  const { runSince } = jobNow();
  clock.set(-400);
  meterClock.followClock(ctx);
  clock.set(800);
  meterClock.followClock(ctx);
  expect(jobNow().runSince).toBe(runSince);
});
