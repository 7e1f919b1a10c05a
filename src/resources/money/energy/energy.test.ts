import { afterEach, expect, test } from "bun:test";
import { atEveryFailpoint, fakeClock } from "../../../../test/harness.ts";
import { type JobsApp, jobsApp } from "../../../../test/jobs_kit.ts";
import { durable, write } from "../../../platform/db/db.ts";
import type { Gpu } from "../../../platform/machine/hardware.ts";
import * as gpu from "../../machines/gpu/service.ts";
import * as moves from "../../training/training_jobs/state/moves.ts";
import { recordStep } from "../../training/training_jobs/state/progress.ts";
import { currentJob } from "../../training/training_jobs/state/rows.ts";
import { metricsAt } from "../../training/training_jobs/state/steps.ts";
import * as cost from "../cost/service.ts";
import * as energy from "./service.ts";
import { powerReadings } from "./table.ts";

const opened: JobsApp[] = [];
afterEach(async () => {
  for (const app of opened) await app.close();
  for (const app of opened.splice(0)) app.remove();
});

const card = (index: number, powerWatts: number | null): Gpu => ({
  index,
  uuid: `GPU-${index}`,
  name: "NVIDIA H100",
  type: "H100",
  memoryTotalMib: 81_920,
  memoryUsedMib: 0,
  utilizationPercent: 90,
  temperatureCelsius: 60,
  powerWatts,
  driverVersion: "1",
});

/** One card with the power `card.watts`; the clock moves only by `after`. */
async function oneCard(dir?: string) {
  const clock = fakeClock();
  const flags = { "billing.local_rate_usd_per_hour": -1 }; // charges by the price file
  const app = await jobsApp({ clock, flags, ...(dir === undefined ? {} : { dir }) });
  opened.push(app);
  const seen = { watts: 300 as number | null, asked: 0 };
  gpu.useProbe(app.ctx, async () => {
    seen.asked++;
    return [card(0, seen.watts)];
  });
  const lease = (holder: string, kind = "training_job") =>
    gpu.acquire(app.ctx, {
      holder,
      kind,
      workspaceId: app.workspaceA,
      bytes: 1e6,
      gpuType: "H100",
      gpuCount: 1,
      priority: 0,
      pinned: true,
      mayEvict: false,
    });
  return {
    app,
    clock,
    seen,
    lease,
    async begin() {
      const id = await app.job();
      await lease(id);
      app.moves(id, ["provision", "run"], { runSince: clock.now() });
      return id;
    },
    async after(ms: number) {
      clock.advance(ms);
      await energy.sample(app.ctx);
    },
    joules: () => app.ctx.db.select().from(powerReadings).get()?.energyJoules,
  };
}

test("a job shows its energy up to its end", async () => {
  const on = await oneCard();
  const id = await on.begin();
  expect((await on.app.get(id)).energy_wh).toBeNull();
  await on.after(36_000); // 36 s × 300 W = 3 Wh
  expect((await on.app.get(id)).energy_wh).toBe(3);
  on.seen.watts = 500;
  await on.after(36_000); // 36 s × 400 W = 4 Wh
  expect((await on.app.get(id)).energy_wh).toBe(7);
  on.clock.advance(7_200); // 7.2 s × 500 W = 1 Wh, before the next reading
  moves.fail(on.app.ctx, id, { code: "timeout", message: "late", param: null });
  expect((await on.app.get(id)).energy_wh).toBe(8);
  await on.after(36_000);
  expect((await on.app.get(id)).energy_wh).toBe(8);
}, 60_000);

test("a step has the power that was measured since the step before; without a reading it has none", async () => {
  const on = await oneCard();
  const id = await on.begin();
  const report = (step: number) => {
    const values = { loss: 1, step_time: 2 };
    recordStep(on.app.ctx, id, { type: "step", step, epoch: 0, values, eta_ms: null, samples: [], alarms: [] });
    return write(on.app.ctx.db, (tx) => metricsAt(tx, id, step));
  };
  expect(report(1)).toEqual({ loss: 1, step_time: 2 });
  await on.after(10_000);
  expect(report(2)).toMatchObject({ power_watts: 300, step_energy_joules: 600 });
  on.seen.watts = 500;
  await on.after(10_000); // 400 W
  await on.after(10_000); // 500 W
  expect(report(3)).toMatchObject({ power_watts: 450, step_energy_joules: 900 });
  expect(report(4)).toMatchObject({ power_watts: 450, step_energy_joules: 900 }); // no newer reading
}, 60_000);

test("the driver is not read while no job runs on a GPU, and a GPU that reports no power adds nothing", async () => {
  const on = await oneCard();
  await on.after(10_000);
  expect(on.seen.asked).toBe(0);
  const id = await on.begin();
  on.seen.watts = null;
  await on.after(10_000);
  expect((await on.app.get(id)).energy_wh).toBeNull();
  on.seen.watts = 360;
  await on.after(10_000); // all of the 20 s
  expect((await on.app.get(id)).energy_wh).toBe(2);
}, 60_000);

test("the power of a GPU is shared by the jobs at work on it, and then does not count for its type", async () => {
  const on = await oneCard();
  const [a, b] = [await on.begin(), await on.begin()];
  await on.after(36_000);
  expect([(await on.app.get(a)).energy_wh, (await on.app.get(b)).energy_wh]).toEqual([1.5, 1.5]);
  expect(on.joules()).toBeUndefined();
  const holders = [
    { holder: "a", device: "x", idle: false },
    { holder: "b", device: "x", idle: true },
    { holder: "a", device: "y", idle: false },
  ];
  const watts = new Map([
    ["x", 100],
    ["y", 50],
  ]);
  expect(energy.powerOf("a", holders, watts)).toEqual({ watts: 150, alone: false });
  expect(energy.powerOf("c", holders, watts)).toBeUndefined();
}, 60_000);

test("after ten minutes the measured power is the price of this machine", async () => {
  const on = await oneCard();
  await on.begin();
  const nominal = cost.rateFor(on.app.ctx, "local", "H100"); // 0.7 × 0.15 + 28000 / 35040
  expect(nominal).toBe(904_087);
  await on.after(599_000);
  expect(cost.rateFor(on.app.ctx, "local", "H100")).toBe(904_087);
  await on.after(1_000);
  expect([...energy.measuredWatts(on.app.ctx)]).toEqual([["H100", 300]]);
  expect(cost.rateFor(on.app.ctx, "local", "H100")).toBe(844_087); // 0.3 × 0.15 + …
}, 60_000);

test("wherever the server is killed, a reading is whole or missing, in the job and in the type alike", async () => {
  const crashes = await atEveryFailpoint(async (attempt) => {
    const on = await oneCard();
    const id = await on.begin();
    await on.after(10_000); // 3,000 J
    await durable(on.app.ctx.db);
    await attempt(() => on.after(10_000).then(() => durable(on.app.ctx.db)));
    await on.app.close();
    opened.pop();
    const after = await oneCard(on.app.dir);
    moves.requeueInterrupted(after.app.ctx);
    const kept = currentJob(after.app.ctx.db, id)?.energyJoules;
    expect([3_000, 6_000]).toContain(kept ?? 0);
    expect(after.joules() ?? null).toBe(kept ?? null);
    await after.app.close().then(after.app.remove);
    opened.pop();
  });
  expect(crashes).toBeGreaterThan(1);
}, 120_000);

test("the energy survives a restart, and the next run adds to it", async () => {
  const on = await oneCard();
  const id = await on.begin();
  await on.after(36_000);
  await on.app.close();
  opened.pop();
  const again = await oneCard(on.app.dir);
  again.clock.advance(3_600_000);
  moves.requeueInterrupted(again.app.ctx); // the server was gone for an hour
  expect((await again.app.get(id)).energy_wh).toBe(3);
  await again.lease(id);
  again.app.moves(id, ["provision", "run"], { runSince: again.clock.now() });
  await again.after(12_000);
  expect((await again.app.get(id)).energy_wh).toBe(4);
}, 60_000);
