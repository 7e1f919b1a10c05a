import { afterAll, beforeAll, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { type JobsApp, jobsApp } from "../../../../../test/jobs_kit.ts";
import { write } from "../../../../platform/db/db.ts";
import { type JobRow, trainingJobs, trainingMetrics } from "../table.ts";
import { addCheckpoint } from "./checkpoint_files.ts";

let app: JobsApp;
beforeAll(async () => {
  app = await jobsApp();
}, 60_000);
afterAll(() => app.close().then(app.remove));

/** Checkpoints after steps 10 and 20 of a job with these metrics of step n. */
async function checkpointsOf(id: string, valuesOf: (step: number) => Record<string, number>) {
  write(app.ctx.db, (tx) => {
    for (let step = 1; step <= 20; step++) {
      const values = valuesOf(step);
      tx.insert(trainingMetrics).values({ jobId: id, step, epoch: 0, time: step, values }).run();
      if (step % 10 !== 0) continue;
      const path = `${id}/step-${String(step).padStart(6, "0")}`;
      const job = tx.select().from(trainingJobs).where(eq(trainingJobs.id, id)).get() as JobRow;
      addCheckpoint(tx, job, { step, path, sizeBytes: 1, metrics: values }, step);
    }
  });
  const { data } = (await app.call("GET", `/v1/training_jobs/${id}/checkpoints`)).body;
  return data.map(({ step, score, ranked_by, is_best }: Record<string, unknown>) => [step, score, ranked_by, is_best]);
}

test("F10 the best checkpoint has the best mean of ten steps, not the luckiest step", async () => {
  const id = await app.job();
  const lucky = (step: number) => ({ reward: step === 10 ? 1 : step > 10 ? 0.5 : 0 });
  const by = "mean reward of the last 10 steps";
  expect(await checkpointsOf(id, lucky)).toEqual([
    [20, 0.5, by, true],
    [10, 0.1, by, false],
  ]);
  expect((await app.get(id)).best_by).toBe(by);
});

test("F10 while all rewards are 0 no checkpoint is the best", async () => {
  const id = await app.job();
  expect((await checkpointsOf(id, () => ({ reward: 0 }))).map((each: unknown[]) => each[3])).toEqual([false, false]);
  expect((await app.get(id)).best_checkpoint_id).toBeNull();
});
