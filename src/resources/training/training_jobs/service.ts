/** Operations of callers on a training job. `admission/create.ts` creates jobs, `running/reconcile.ts` runs them. */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { AppError } from "../../../lib/errors.ts";
import { afterCommit, type Tx, write } from "../../../platform/db/db.ts";
import { mustBeOpen } from "../../data/storage_usage/service.ts";
import type { Payer } from "../../money/billing/budget.ts";
import * as billing from "../../money/billing/service.ts";
import { report } from "./machine.ts";
import type { UpdateTrainingJob } from "./schema.ts";
import * as deletion from "./state/deletion.ts";
import { step } from "./state/notes.ts";
import { currentJob, isFinished, mustGet } from "./state/rows.ts";
import { type JobRow, trainingJobs } from "./table.ts";

/** Ends a job at once, or when its worker has ended. Cancelling twice changes nothing. */
export function cancel(ctx: Ctx, workspaceId: string, id: string): JobRow {
  const before = mustGet(ctx, workspaceId, id);
  if (before.status === "cancelling") return before;
  return move(ctx, before, "cancelled", (tx, now) => deletion.requestCancel(tx, id, now));
}

/** The status changes at once; the worker then saves and ends. */
export function pause(ctx: Ctx, workspaceId: string, id: string): JobRow {
  return move(ctx, mustGet(ctx, workspaceId, id), "paused", (tx, now) => {
    const patch = { pauseReason: "by request" as const, queueReason: null, etaMs: null };
    return step(tx, { id, action: "pause", now, patch }, { level: "info", message: "Paused by request" });
  });
}

/**
 * Puts a paused job at the end of the queue; it resumes from its newest checkpoint. From now on the key of `payer` pays.
 * A former run that has not ended yet is still charged to the former key.
 */
export function resume(ctx: Ctx, payer: Payer, id: string): JobRow {
  const before = mustGet(ctx, payer.workspaceId, id);
  if (before.status === "paused") billing.mustAfford(ctx, payer, { ratePerHourMicros: before.rateMicros, micros: 0 });
  if (before.status === "paused") mustBeOpen(ctx, { workspaceId: before.workspaceId, kind: "checkpoints" });
  return move(ctx, before, "resumed", (tx, now) => {
    const paused = currentJob(tx, id);
    if (paused?.status !== "paused") return undefined;
    const apiKeyId = paused.runSince === null ? payer.keyId : paused.apiKeyId;
    const patch = { queuedAt: now, pauseReason: null, queueReason: null, crashes: 0, notBefore: 0, apiKeyId };
    return step(tx, { id, action: "requeue", now, patch }, { level: "info", message: "Resumed by request" });
  });
}

type Change = (tx: Tx, now: number) => JobRow | undefined;

function move(ctx: Ctx, before: JobRow, participle: string, change: Change): JobRow {
  const row = write(ctx.db, (tx) => {
    const moved = change(tx, ctx.clock.now());
    if (moved) afterCommit(tx, () => ctx.state.trainingJobs.changes.notify(moved.id));
    return moved;
  });
  ctx.wake("training_jobs.reconcile");
  if (row) return row;
  throw unsupported(`Training job ${before.id} is ${before.status} and cannot be ${participle}`);
}

const unsupported = (message: string) => new AppError("unsupported_state", message, { param: "id" });

/** Changes the fields that people write on a job. Its training does not change. */
export function update(ctx: Ctx, workspaceId: string, id: string, body: UpdateTrainingJob): JobRow {
  const before = mustGet(ctx, workspaceId, id);
  const now = ctx.clock.now();
  const patch = {
    ...(body.tags === undefined ? {} : { tags: body.tags }),
    ...(body.notes === undefined ? {} : { notes: body.notes }),
    ...(body.group === undefined ? {} : { group: body.group }),
    updatedAt: now,
  };
  const row = write(ctx.db, (tx) => {
    const [changed] = tx.update(trainingJobs).set(patch).where(eq(trainingJobs.id, id)).returning().all();
    if (changed) emit(tx, "job.updated", { workspaceId, now }, report(changed));
    return changed;
  });
  return row ?? before;
}

/** Deletes a finished job. The sweep removes its directory; models that the job made stay. */
export function remove(ctx: Ctx, workspaceId: string, id: string): JobRow {
  const row = mustGet(ctx, workspaceId, id);
  if (!isFinished(row)) throw unsupported(`Training job ${id} is ${row.status}: cancel it first`);
  if (ctx.state.trainingJobs.isActive(id))
    throw unsupported(`Training job ${id} is ${row.status}, but its worker is still ending: try again`);
  write(ctx.db, (tx) => {
    const dependent = deletion.dependentOf(tx, id);
    if (dependent)
      throw unsupported(`Training job ${dependent} starts from a checkpoint of ${id}: cancel it or wait for its end`);
    deletion.deleteJob(ctx, tx, row);
  });
  return row;
}

/** For a deleted workspace. */
export const removeAll = (ctx: Ctx, workspaceId: string) => deletion.removeAll(ctx, workspaceId);
