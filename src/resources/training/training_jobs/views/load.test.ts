import { afterAll, beforeAll, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { jobRow } from "../../../../../test/fake_trainers.ts";
import { type JobsApp, jobsApp } from "../../../../../test/jobs_kit.ts";
import { models } from "../../../serving/models/table.ts";
import type { JobRow } from "../table.ts";
import { loadOf } from "./load.ts";

let app: JobsApp;
beforeAll(async () => {
  app = await jobsApp();
}, 60_000);
afterAll(() => app.close().then(app.remove));

const READING = {} as NonNullable<JobRow["reading"]>;
const load = (more: Partial<JobRow>) =>
  loadOf(app.ctx, jobRow(0, { workspaceId: app.workspaceA, datasetId: null, reading: READING, ...more }));
const ROWS = { datasetId: "ds_1", snapshotNumber: null };

test("a job that has read everything, or that has ended, waits for nothing", () => {
  expect(load({ ...ROWS, reading: null })).toBeNull();
  expect(load({ ...ROWS, completedAt: 1 })).toBeNull();
  expect(load({ snapshotNumber: null })).toBeNull();
});

test("rows are read: those of training first, then those of evaluation", () => {
  const reads = (id: string) =>
    ({ stage: "reading_dataset", progress: null, reason: `reads the dataset ${id}` }) as const;
  expect(load(ROWS)).toEqual(reads("ds_1"));
  expect(load({ ...ROWS, evalDatasetId: "ds_2" })).toEqual(reads("ds_1"));
  expect(load({ ...ROWS, snapshotNumber: 1, evalDatasetId: "ds_2" })).toEqual(reads("ds_2"));
});

test("a model is waited for before rows are read, and its download is shown", () => {
  const row = app.ctx.db.select().from(models).where(eq(models.name, "random")).get()!;
  const set = (patch: object) => app.ctx.db.update(models).set(patch).where(eq(models.id, row.id)).run();
  const job = { ...ROWS, baseModel: "random", baseModelId: row.id };
  const waits = { stage: "fetching_model", reason: "waits for the model random" } as const;
  expect(load(job)?.stage).toBe("reading_dataset");
  for (const none of [
    { datasetId: null },
    { snapshotNumber: 1 },
    { snapshotNumber: 1, evalDatasetId: "ds_2", evalSnapshotNumber: 2 },
  ])
    expect(load({ ...job, ...none })).toMatchObject(waits);
  set({ shape: null });
  expect(load(job)).toMatchObject(waits);
  set({ status: "downloading", progress: 0.256 });
  expect(load(job)).toEqual({ stage: "fetching_model", progress: 0.256, reason: "downloads the model random (25 %)" });
  set({ progress: null });
  expect(load(job)?.reason).toBe("downloads the model random (0 %)");
  set({ shape: row.shape, status: row.status, progress: row.progress });
});
