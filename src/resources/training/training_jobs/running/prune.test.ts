import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { eq } from "drizzle-orm";
import { fakeClock } from "../../../../../test/harness.ts";
import { type JobsApp, jobsApp } from "../../../../../test/jobs_kit.ts";
import { DAY_MS } from "../../../../lib/units.ts";
import { loops } from "../../../../loops.ts";
import { durable, write } from "../../../../platform/db/db.ts";
import * as looseKeys from "../../../data/loose_keys/service.ts";
import { openLog } from "../logs/file.ts";
import { storeLog } from "../logs/reading.ts";
import { currentJob } from "../state/rows.ts";
import { writeStep } from "../state/steps.ts";
import { type JobRow, trainingJobs } from "../table.ts";
import { prune } from "./prune.ts";
import { sweep } from "./sweep.ts";

const PATH = "/v1/training_jobs";
const STEPS = 1_500;
const clock = fakeClock();
let app: JobsApp;
beforeAll(async () => {
  app = await jobsApp({ clock });
}, 60_000);
afterAll(() => app.close().then(app.remove));

const countOf = (table: string, id: string) =>
  app.ctx.db.$client.query<{ n: number }, [string]>(`SELECT count(*) AS n FROM ${table} WHERE job_id = ?`).get(id)?.n;

/** A finished job with metrics, samples, a log in the storage, and two checkpoints, one of them deleted. */
async function finished(steps: number, patch: Partial<JobRow> = {}): Promise<string> {
  const id = await app.job();
  const log = openLog(app.ctx, id);
  log.add("stdout", `a line of ${id}`);
  log.close();
  const sample = {
    completion: "x",
    reward: 1,
    sub_rewards: {},
    advantage: 0,
    tokens: 1,
    truncated: false,
    error: null,
  };
  write(app.ctx.db, (tx) => {
    const job = currentJob(tx, id)!;
    for (let step = 1; step <= steps; step++) {
      const values = { loss: step === 777 ? 99 : 1 / step, reward: step };
      const samples = step % 10 === 0 ? [{ prompt: "p", ...sample }] : [];
      writeStep(tx, job, { step, epoch: 0, time: clock.now(), values, samples, alarms: [] });
    }
  });
  app.checkpoint(id, 1, { deletedAt: clock.now() });
  app.checkpoint(id, 2);
  app.moves(id, ["pause", "drop"], { completedAt: clock.now(), costMicros: 5, latestMetrics: { loss: 1 }, ...patch });
  await storeLog(app.ctx, currentJob(app.ctx.db, id)!);
  return id;
}

test("D15 old jobs: samples, events and log go after training.detail_retention_days, the job stays", async () => {
  const id = await finished(STEPS);
  const published = await finished(10, { publishedAt: 1 });
  clock.advance(10 * DAY_MS);
  const young = await finished(10);
  clock.advance(356 * DAY_MS);
  const before = await app.get(id);
  const { logKey } = currentJob(app.ctx.db, id)!;
  const sizes = (each: string) =>
    ["training_samples", "training_metrics", "training_checkpoints"].map((t) => countOf(t, each));
  const kept = [published, young].map(sizes);
  await prune(app.ctx);
  expect(await app.get(id)).toEqual(before);
  expect([published, young].map(sizes)).toEqual(kept);
  const [samples, metrics, checkpoints] = sizes(id);
  expect([samples, checkpoints]).toEqual([0, 1]);
  expect(metrics).toBeGreaterThan(100);
  expect(metrics).toBeLessThanOrEqual(1_000);
  // The thinned series has its first, last and highest points.
  const series = (await app.call("GET", `${PATH}/${id}/metrics?keys=loss`)).body;
  const steps = series.data.map(({ step }: { step: number }) => step);
  for (const step of [1, 777, STEPS]) expect(steps).toContain(step);
  const history = (await app.call("GET", `${PATH}/${id}/events`)).body.data;
  expect(history).toMatchObject([{ type: "details_removed" }]);
  expect(history[0].message).toContain("ended more than 365 days ago");
  const log = await app.call("GET", `${PATH}/${id}/logs/full`);
  expect([log.status, log.body.error.message]).toEqual([
    404,
    expect.stringContaining("training.detail_retention_days"),
  ]);
  expect(existsSync(join(app.dir, "jobs", id, "log.ndjson"))).toBe(false);
  await looseKeys.sweep(app.ctx);
  expect(await app.ctx.storage.head(logKey!)).toBeUndefined();
  expect((await app.call("GET", `${PATH}/${young}/logs/full`)).body).toContain(`a line of ${young}`);
  const row = currentJob(app.ctx.db, id);
  await prune(app.ctx);
  expect(currentJob(app.ctx.db, id)).toEqual(row); // once
});

test("D15 old jobs: a removal that was interrupted continues, and 0 days keeps everything", async () => {
  const id = await finished(20);
  clock.advance(400 * DAY_MS);
  const forever = {
    ...app.ctx,
    config: { ...app.ctx.config, training: { ...app.ctx.config.training, detail_retention_days: 0 } },
  };
  await prune(forever);
  expect([countOf("training_samples", id), currentJob(app.ctx.db, id)?.detailsRemovedAt]).toEqual([2, null]);
  const stopped = new AbortController();
  stopped.abort();
  await prune(app.ctx, stopped.signal);
  expect(currentJob(app.ctx.db, id)?.detailsRemovedAt).toBeNull();
  app.ctx.db.$client.run("DELETE FROM training_events WHERE job_id = ?", [id]); // as a kill leaves it
  await prune(app.ctx);
  expect(["events", "metrics", "samples"].map((name) => countOf(`training_${name}`, id))).toEqual([1, 20, 0]);
  expect(currentJob(app.ctx.db, id)?.detailsRemovedAt).toBe(clock.now());
});

test("D15 old jobs: a clock that is ahead removes no details", async () => {
  const id = await finished(20);
  app.ctx.state.trustedClock.observe();
  clock.set(500 * DAY_MS);
  const loop = loops(app.ctx).find(({ name }) => name === "training_jobs.prune");
  await loop?.tick(new AbortController().signal);
  clock.set(-500 * DAY_MS);
  expect([countOf("training_samples", id), currentJob(app.ctx.db, id)?.detailsRemovedAt]).toEqual([2, null]);
});

test("D15 deleted jobs: no row and no stored file is left, except in the records with a window of their own", async () => {
  const id = await finished(20);
  const { logKey } = currentJob(app.ctx.db, id)!;
  expect((await app.call("DELETE", `${PATH}/${id}`)).status).toBe(200);
  await durable(app.ctx.db);
  await sweep(app.ctx);
  await looseKeys.sweep(app.ctx);
  const { $client } = app.ctx.db;
  const tables = $client.query<{ name: string }, []>("SELECT name FROM sqlite_master WHERE type = 'table'").all();
  const naming = tables
    .map(({ name }) => name)
    .filter((name) =>
      $client
        .query<Record<string, unknown>, []>(`SELECT * FROM ${name}`)
        .all()
        .some((row) => JSON.stringify(row).includes(id)),
    );
  expect(naming.sort()).toEqual(["audit_log", "events"]);
  expect(await app.ctx.storage.head(logKey!)).toBeUndefined();
  expect(existsSync(join(app.dir, "jobs", id))).toBe(false);
  expect(app.ctx.db.select().from(trainingJobs).where(eq(trainingJobs.id, id)).all()).toEqual([]);
});

test("D15 old jobs are found by an index", () => {
  const plan = app.ctx.db.$client
    .query<{ detail: string }, []>(
      `EXPLAIN QUERY PLAN SELECT * FROM training_jobs WHERE completed_at IS NOT NULL AND details_removed_at IS NULL
       AND completed_at < 5 AND (completed_at, id) > (1, 'x') AND published_at IS NULL AND log_bytes IS NOT NULL
       ORDER BY completed_at, id LIMIT 100`,
    )
    .all();
  expect(plan[0]?.detail).toContain("training_jobs_with_details");
});
