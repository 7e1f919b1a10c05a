import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { eq } from "drizzle-orm";
import { jobRow } from "../../../../test/fake_trainers.ts";
import { fakeClock, tempDir } from "../../../../test/harness.ts";
import { type JobsApp, jobsApp } from "../../../../test/jobs_kit.ts";
import { deploymentRow } from "../../../../test/money_deeds.ts";
import { pretendServing } from "../../../../test/pretend_replica.ts";
import { closeDb, openDb, write } from "../../../platform/db/db.ts";
import { migrate } from "../../../platform/db/migrate.ts";
import { MIGRATIONS } from "../../../platform/db/migrations/index.ts";
import * as deploying from "../../serving/deployments/fleet/moves.ts";
import * as training from "../../training/training_jobs/state/moves.ts";
import { currentJob } from "../../training/training_jobs/state/rows.ts";
import { trainingJobs } from "../../training/training_jobs/table.ts";
import { usageHours } from "./table.ts";

const HOUR = 3_600_000;
const MINUTE = 60_000;
const clock = fakeClock();
const SHADOW_CPU = 0.057808; // dollars for an hour by the built-in prices
let app: JobsApp;
beforeAll(async () => {
  app = await jobsApp({ clock, flags: { "billing.local_rate_usd_per_hour": 6 } });
}, 60_000);
afterAll(() => app.close().then(app.remove));
const get = async (path: string, key = app.keyA) =>
  (await app.call("GET", `/v1/cost/${path}`, undefined, { key })).body;
const noDeployments = { deployment_cost_usd: 0, deployment_gpu_hours: 0, energy_wh: 0 };

/** Runs a job for so long, through the code that runs jobs. */
async function ranFor(ms: number): Promise<string> {
  const id = await app.job();
  training.provision(app.ctx, currentJob(app.ctx.db, id)!, undefined);
  training.markRunning(app.ctx, id, { device: "cpu", memoryBytes: 1 });
  clock.advance(ms);
  write(app.ctx.db, (tx) => void training.complete(app.ctx, tx, currentJob(tx, id)!));
  return id;
}

test("past costs count whole jobs of the workspace that run or ended within the period", async () => {
  const ids = [await app.job(), await app.job(), await app.job(), await app.job()];
  const [done = "", old = "", running = ""] = ids; // the fourth has never run
  app.moves(old, ["provision", "run", "complete"], { runMs: HOUR, costMicros: 6e6, completedAt: clock.now() });
  clock.advance(40 * 24 * HOUR);
  const used = { runMs: HOUR / 2, costMicros: 3e6, gpuCount: 2, gpuType: "H100", completedAt: clock.now() };
  app.moves(done, ["provision", "run", "complete"], { ...used, energyJoules: 7_200 });
  app.moves(running, ["provision", "run"], { runSince: clock.now() - HOUR / 6 }); // 6 × 1/6
  expect(await get("summary")).toEqual({
    object: "cost_summary",
    period_days: 30,
    job_count: 2,
    total_cost_usd: 4,
    total_gpu_hours: 1.166667,
    avg_cost_per_job_usd: 2,
    ...noDeployments,
    energy_wh: 2,
    shadow_cost_usd: expect.closeTo(0.904087 + SHADOW_CPU / 6, 5),
  });
  expect(await get("summary?days=60")).toMatchObject({ period_days: 60, job_count: 3, total_cost_usd: 10 });
  const all = { ...noDeployments, energy_wh: 2, shadow_cost_usd: expect.any(Number) };
  expect(await get("by_provider")).toEqual([
    { object: "cost_by_provider", provider: "local", job_count: 2, cost_usd: 4, ...all },
  ]);
  const shadows = { H100: 0.904087, cpu: expect.closeTo(SHADOW_CPU / 6, 5) };
  const gpu = { object: "cost_by_gpu", job_count: 1, ...noDeployments };
  expect(await get("by_gpu")).toEqual([
    { ...gpu, gpu_type: "H100", cost_usd: 3, gpu_hours: 1, energy_wh: 2, shadow_cost_usd: shadows.H100 },
    { ...gpu, gpu_type: "cpu", cost_usd: 1, gpu_hours: 0.166667, shadow_cost_usd: shadows.cpu },
  ]);
  expect(await get("by_day?days=60")).toMatchObject([
    { object: "cost_by_day", day: "2026-01-01", job_count: 1, cost_usd: 6, gpu_hours: 1, energy_wh: 0 },
    { day: "2026-02-10", job_count: 2, cost_usd: 4, gpu_hours: 1.166667, energy_wh: 2 },
  ]);
  expect(await get("by_day?days=30")).toHaveLength(1);
  expect(await get("by_day", app.keyB)).toEqual([]);
  expect(await get("summary", app.keyB)).toMatchObject({ job_count: 0, total_cost_usd: 0, avg_cost_per_job_usd: 0 });
  expect(await get("by_gpu", app.keyB)).toEqual([]);
  app.moves(running, ["fail"], { runSince: null, completedAt: clock.now() - 90 * 24 * HOUR });
  clock.advance(40 * 24 * HOUR);
}, 60_000);

test("P13 cost history: a deleted job stays in summary, by_provider and by_gpu", async () => {
  const id = await ranFor(HOUR);
  const before = [await get("summary"), await get("by_provider"), await get("by_gpu")];
  expect(before[0]).toMatchObject({ job_count: 1, total_cost_usd: 6, total_gpu_hours: 1 });
  expect((await app.call("DELETE", `/v1/training_jobs/${id}`)).status).toBe(200);
  expect([await get("summary"), await get("by_provider"), await get("by_gpu")]).toEqual(before);
  clock.advance(40 * 24 * HOUR);
});

test("P13 cost history: a job that was interrupted counts with the time before it", async () => {
  const id = await app.job();
  training.provision(app.ctx, currentJob(app.ctx.db, id)!, undefined);
  clock.advance(HOUR);
  training.pauseForCredit(app.ctx, id, "out of credit");
  training.suspend(app.ctx, id); // its worker has ended
  expect(await get("summary")).toMatchObject({ job_count: 1, total_cost_usd: 6, total_gpu_hours: 1 });
  await app.call("POST", `/v1/training_jobs/${id}/cancel`);
  expect(await get("summary")).toMatchObject({ job_count: 1, total_cost_usd: 6, total_gpu_hours: 1 });
  clock.advance(40 * 24 * HOUR);
});

test("P13 cost history: deployments have their own fields, each minute of service in its hour", async () => {
  const { id } = (await app.call("POST", "/v1/deployments", { model: "random", name: "d" })).body;
  pretendServing(app, id);
  for (let minute = 0; minute < 90; minute++) {
    clock.advance(MINUTE);
    deploying.keepAccount(app.ctx, deploying.current(app.ctx.db, id)!, minute < 60 ? 1 : 2);
  }
  clock.advance(MINUTE / 2); // not charged yet
  // 61 minutes of one replica, then 29.5 of two
  const served = { deployment_cost_usd: 12, deployment_gpu_hours: 2 };
  expect(await get("summary")).toMatchObject({ job_count: 0, total_cost_usd: 0, ...served });
  expect(await get("by_provider")).toMatchObject([{ provider: "local", job_count: 0, cost_usd: 0, ...served }]);
  expect(await get("by_gpu")).toMatchObject([{ gpu_type: "cpu", job_count: 0, gpu_hours: 0, ...served }]);
  deploying.move(app.ctx, id, "stop");
  expect(await get("summary")).toMatchObject(served);
  const hours = app.ctx.db.select().from(usageHours).all();
  expect(hours.filter(({ kind }) => kind === "deployment").length).toBeGreaterThan(1);
  clock.advance(40 * 24 * HOUR);
});

test("P13 cost/estimate: gpu_cost_usd is what a run of that length is charged", async () => {
  const id = await ranFor(47 * MINUTE);
  const estimate = await get("estimate?gpu_type=cpu&duration_minutes=47");
  expect(estimate.gpu_cost_usd).toBe((await app.get(id)).cost_usd);
  clock.advance(40 * 24 * HOUR);
});

test("D14 cost history: the queries read sums and open jobs by index, not the ended jobs", async () => {
  const { db } = app.ctx;
  const row = jobRow(clock.now(), { workspaceId: app.workspaceA, datasetId: null, status: "running", runMs: HOUR + 1 });
  write(db, (tx) => {
    for (let i = 0; i < 300; i++) {
      const id = `job_${i}`;
      tx.insert(trainingJobs)
        .values({ ...row, id })
        .run();
    }
    const ended = { status: "completed" as const, costMicros: 1_000, completedAt: clock.now() };
    tx.update(trainingJobs).set(ended).where(eq(trainingJobs.runMs, row.runMs)).run();
  });
  expect(await get("summary")).toMatchObject({ job_count: 300, total_cost_usd: 0.3, total_gpu_hours: 300.000083 });
  const sums = db.select().from(usageHours).all();
  expect(sums.filter(({ hour }) => hour === Math.floor(clock.now() / HOUR))).toHaveLength(1);
  const plan = (where: string) =>
    db.$client
      .query<{ detail: string }, [string]>(
        `EXPLAIN QUERY PLAN SELECT * FROM training_jobs WHERE workspace_id = ? AND ${where}`,
      )
      .all(app.workspaceA)
      .map(({ detail }) => detail);
  expect(plan("run_since >= 0").join()).toContain("USING INDEX training_jobs_at_work");
  const interrupted = plan("completed_at IS NULL AND run_since IS NULL AND run_ms > 0");
  expect(interrupted.join()).toContain("USING INDEX training_jobs_interrupted");
});

test("P13 cost history: the sums of a database from before them come from its jobs and its ledger", async () => {
  const dir = tempDir();
  const db = openDb({ path: join(dir, "verk.db") });
  migrate(
    db,
    join(dir, "backups"),
    MIGRATIONS.filter(({ version }) => version < 14),
  );
  const run = (text: string) => db.$client.run(text);
  run("INSERT INTO workspaces VALUES ('ws_old', 'old', 'active', 'cus_old', '{}', 1, 1)");
  const entry = (id: string, subject: string, micros: number, ms: number) =>
    run(
      `INSERT INTO ledger_entries VALUES ('txn_${id}', 'ws_old', 'charge', ${-micros}, '${subject.slice(0, 3) === "job" ? "job" : "deployment"}', '${subject}', '${id}', ${ms}, 1, 'x', ${2 * HOUR}, NULL)`,
    );
  entry("1", "job_gone", 5, 1_000);
  entry("2", "job_gone", 6, 2_000);
  const served = { ...deploymentRow(1, "ws_old", 1), gpuCount: 2 };
  run(
    `INSERT INTO deployments (id, workspace_id, name, model, source, status, gpu_type, gpu_count, provider, min_replicas, max_replicas, idle_timeout_seconds, wake_timeout_seconds, max_held_requests, pinned, parked, waking, attempts, total_cost_micros, cost_remainder, charged_replicas, total_requests, total_errors, total_prompt_tokens, total_completion_tokens, total_latency_ms, uptime_ms, metadata, created_at, updated_at)
     VALUES ('${served.id}', 'ws_old', 'd', 'm', 'hub', 'stopped', 'H100', 2, 'local', 1, 1, 1, 1, 1, 0, 0, 0, 0, 7, 0, 1, 0, 0, 0, 0, 0, 500, '{}', 1, 1)`,
  );
  entry("3", served.id, 7, 500);
  migrate(db, join(dir, "backups"));
  const at = { workspaceId: "ws_old", hour: 2, provider: "local", energyJoules: 0 };
  expect(db.select().from(usageHours).all()).toEqual([
    { ...at, kind: "deployment", gpuType: "H100", jobs: 0, deviceMs: 1_000, costMicros: 7 },
    { ...at, kind: "job", gpuType: "unknown", jobs: 1, deviceMs: 3_000, costMicros: 11 },
  ]);
  closeDb(db);
});
