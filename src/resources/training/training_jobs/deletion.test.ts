import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventsOf } from "../../../../test/fake_replicas.ts";
import { jobPaths } from "../../../../test/foreign_paths.ts";
import { atEveryFailpoint, testApp } from "../../../../test/harness.ts";
import { type JobsApp, jobsApp } from "../../../../test/jobs_kit.ts";
import { newId } from "../../../lib/ids.ts";
import { durable, write } from "../../../platform/db/db.ts";
import { purge } from "../../../purge.ts";
import { datasetPins } from "../../data/datasets/table.ts";
import { looseKeys } from "../../data/loose_keys/table.ts";
import { sweep } from "./running/sweep.ts";
import * as jobs from "./service.ts";
import { currentJob } from "./state/rows.ts";
import { trainingCheckpoints, trainingEvents, trainingJobs, trainingMetrics } from "./table.ts";

const PATH = "/v1/training_jobs";
let app: JobsApp;
beforeAll(async () => {
  app = await jobsApp();
}, 60_000);
afterAll(() => app.close().then(app.remove));
const pins = () => app.ctx.db.select().from(datasetPins).all();

test("only a finished job can be deleted; rows, events, log and files go, the dataset stays", async () => {
  const id = await app.job();
  expect((await app.call("DELETE", `${PATH}/${id}`)).body.error.code).toBe("unsupported_state");
  app.checkpoint(id, 1);
  write(app.ctx.db, (tx) =>
    tx
      .insert(trainingMetrics)
      .values({ jobId: id, step: 1, epoch: 0, time: 0, values: { loss: 1 } })
      .run(),
  );
  app.moves(id, ["pause", "drop"], { logKey: "jobs/log", completedAt: 1 });
  const { checkpoints, dir } = jobPaths(app.ctx, id);
  mkdirSync(checkpoints, { recursive: true });
  writeFileSync(join(checkpoints, "x"), "x");
  const { status, body } = await app.call("DELETE", `${PATH}/${id}`);
  expect([status, body]).toEqual([200, { id, object: "training_job", deleted: true }]);
  for (const table of [trainingJobs, trainingCheckpoints, trainingMetrics, trainingEvents])
    expect(app.ctx.db.select().from(table).all()).toEqual([]);
  expect(app.ctx.db.select().from(looseKeys).all()).toMatchObject([{ key: "jobs/log" }]);
  expect(existsSync(dir)).toBe(true);
  await sweep(app.ctx);
  expect(existsSync(dir)).toBe(false);
  expect((await app.call("GET", `${PATH}/${id}`)).status).toBe(404);
  expect(eventsOf(app, id).at(-1)).toBe("job.deleted");
});

test("wherever the server is killed, the job exists with its files, or it is deleted and its files go too", async () => {
  const ids: string[] = [];
  const crashes = await atEveryFailpoint(async (attempt) => {
    const own = await jobsApp();
    const id = await own.job();
    ids.push(id);
    await own.call("POST", `${PATH}/${id}/cancel`);
    await durable(own.ctx.db);
    mkdirSync(jobPaths(own.ctx, id).checkpoints, { recursive: true });
    await attempt(async () => {
      jobs.remove(own.ctx, own.workspaceA, id);
      await sweep(own.ctx); // at once, before the deletion is on the disk
      await durable(own.ctx.db);
    });
    await own.close();
    const after = testApp({ dir: own.dir }); // as a restart would
    const there = currentJob(after.ctx.db, id) !== undefined;
    if (there) expect(existsSync(jobPaths(after.ctx, id).checkpoints)).toBe(true);
    expect(eventsOf(after, id).includes("job.deleted")).toBe(!there);
    await sweep(after.ctx);
    expect(existsSync(jobPaths(after.ctx, id).dir)).toBe(there);
    await after.close().then(after.remove);
  });
  expect(crashes).toBeGreaterThan(1);
}, 60_000);

test("the sweep removes the pin of a job that a kill prevented, and leaves a job in admission alone", async () => {
  const id = await app.job();
  await app.call("POST", `${PATH}/${await app.job()}/cancel`);
  const datasetId = await app.dataset("prompt");
  const coming = newId("job");
  const admitted = Promise.withResolvers<void>();
  const admission = app.ctx.state.trainingJobs.admitting(coming, () => admitted.promise);
  mkdirSync(jobPaths(app.ctx, coming).dir, { recursive: true });
  write(app.ctx.db, (tx) => {
    for (const jobId of [newId("job"), coming])
      tx.insert(datasetPins).values({ jobId, datasetId, number: 1, createdAt: 0 }).run();
  });
  await sweep(app.ctx);
  expect(pins().map((pin) => pin.jobId)).toEqual([id, coming]);
  expect(existsSync(jobPaths(app.ctx, coming).dir)).toBe(true);
  admitted.resolve();
  await admission;
  await sweep(app.ctx);
  expect(pins().map((pin) => pin.jobId)).toEqual([id]);
  expect(existsSync(jobPaths(app.ctx, coming).dir)).toBe(false);
});

test("the jobs of a deleted workspace end and are deleted", async () => {
  const own = await jobsApp();
  const [queued, running] = [await own.job(), await own.job()];
  own.moves(running, ["provision", "run"]);
  await own.call("DELETE", `/v1/workspaces/${own.workspaceA}`, undefined, { key: own.adminKey });
  await purge(own.ctx);
  expect(currentJob(own.ctx.db, queued)).toBeUndefined();
  expect(currentJob(own.ctx.db, running)?.status).toBe("cancelling");
  own.moves(running, ["drop"], { completedAt: 1 });
  await sweep(own.ctx);
  expect(currentJob(own.ctx.db, running)).toBeUndefined();
  await own.close().then(own.remove);
});
