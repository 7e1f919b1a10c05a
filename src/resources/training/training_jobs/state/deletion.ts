/** Cancels jobs by request and deletes finished ones. Directories are removed later, by the sweep. */
import { and, eq, inArray, notInArray } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { emit } from "../../../../events/emit.ts";
import { afterCommit, type Tx, write } from "../../../../platform/db/db.ts";
import * as snapshots from "../../../data/datasets/stream/snapshots.ts";
import * as looseKeys from "../../../data/loose_keys/service.ts";
import { machine, report } from "../machine.ts";
import { type JobRow, trainingCheckpoints, trainingExports, trainingJobs } from "../table.ts";
import { charge, settle } from "./account.ts";
import { step } from "./notes.ts";
import { isFinished } from "./rows.ts";

/** Ends a job at once or, if it has a worker, when the worker has ended. Undefined if the job has ended already. */
export function requestCancel(tx: Tx, id: string, now: number): JobRow | undefined {
  const patch = { completedAt: now, queueReason: null, pauseReason: null };
  const row =
    step(
      tx,
      { id, action: "cancel", now },
      {
        level: "info",
        message: "Cancelling by request; stopping the worker",
      },
    ) ?? step(tx, { id, action: "drop", now, patch }, { level: "info", message: "Cancelled by request" });
  if (row?.status === "cancelled") snapshots.unpin(tx, id);
  return row;
}

/** An unfinished job that starts from a checkpoint of this one. */
export function dependentOf(tx: Tx, id: string): string | undefined {
  const checkpoints = tx
    .select({ id: trainingCheckpoints.id })
    .from(trainingCheckpoints)
    .where(eq(trainingCheckpoints.jobId, id));
  return tx
    .select({ id: trainingJobs.id })
    .from(trainingJobs)
    .where(and(notInArray(trainingJobs.status, [...machine.terminal]), inArray(trainingJobs.resumeFrom, checkpoints)))
    .get()?.id;
}

export function deleteJob(ctx: Ctx, tx: Tx, row: JobRow) {
  const now = ctx.clock.now();
  const { storageKey, jobId } = trainingExports;
  const files = tx.select({ storageKey }).from(trainingExports).where(eq(jobId, row.id)).all();
  for (const key of [row.logKey, ...files.map((each) => each.storageKey)]) if (key) looseKeys.drop(tx, key, now);
  snapshots.unpin(tx, row.id);
  charge(ctx, tx, settle(ctx, row), now); // the worker of a cancelled job may still be ending
  tx.delete(trainingJobs).where(eq(trainingJobs.id, row.id)).run();
  emit(tx, "job.deleted", { workspaceId: row.workspaceId, now }, report(row));
  afterCommit(tx, () => {
    ctx.wake("training_jobs.sweep");
    ctx.wake("traces.prune"); // the rollouts of the job
    ctx.wake("volumes.sweep");
  });
}

/** For a deleted workspace: cancels its jobs and deletes the finished ones. The sweep calls it again for the rest. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const rows = () => ctx.db.select().from(trainingJobs).where(eq(trainingJobs.workspaceId, workspaceId)).all();
  for (const { id, ...row } of rows())
    if (!isFinished(row) && row.status !== "cancelling")
      write(ctx.db, (tx) => {
        if (requestCancel(tx, id, ctx.clock.now())) afterCommit(tx, () => ctx.state.trainingJobs.changes.notify(id));
      });
  for (const row of rows()) if (isFinished(row)) write(ctx.db, (tx) => deleteJob(ctx, tx, row));
  ctx.wake("training_jobs.reconcile");
}
