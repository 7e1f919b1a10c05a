/** Writes the report of one step: metrics, samples and alarms. */
import { and, eq, lt } from "drizzle-orm";
import type { Tx } from "../../../../platform/db/db.ts";
import type { StepRecord } from "../../../../workers/protocol_trainer.ts";
import { type JobRow, trainingJobs, trainingMetrics, trainingSamples } from "../table.ts";
import { note } from "./notes.ts";

/** A step that was reported before is replaced. */
export function writeStep(tx: Tx, job: JobRow, { step, epoch, time, values, samples, alarms }: StepRecord) {
  const point = { epoch, time, values };
  tx.insert(trainingMetrics)
    .values({ jobId: job.id, step, ...point })
    .onConflictDoUpdate({ target: [trainingMetrics.jobId, trainingMetrics.step], set: point })
    .run();
  tx.delete(trainingSamples)
    .where(and(eq(trainingSamples.jobId, job.id), eq(trainingSamples.step, step)))
    .run();
  for (const [number, { sub_rewards: subRewards, ...sample }] of samples.entries())
    tx.insert(trainingSamples)
      .values({ jobId: job.id, step, number, ...sample, prompt: sample.prompt ?? null, subRewards })
      .run();
  for (const { type, message } of alarms) note(tx, job, time, { level: "warn", type, message, data: { step } });
}

/** Writes a step whose report was lost. A step that is there stays as it is. */
export function recoverStep(tx: Tx, job: JobRow, record: StepRecord) {
  if (metricsAt(tx, job.id, record.step)) return;
  writeStep(tx, job, record);
  const { step, values: latestMetrics } = record;
  tx.update(trainingJobs)
    .set({ step, latestMetrics })
    .where(and(eq(trainingJobs.id, job.id), lt(trainingJobs.step, step)))
    .run();
}

export const metricsAt = (tx: Tx, jobId: string, step: number): Record<string, number> | undefined =>
  tx
    .select()
    .from(trainingMetrics)
    .where(and(eq(trainingMetrics.jobId, jobId), eq(trainingMetrics.step, step)))
    .get()?.values;
