/** Training jobs: the rows and what callers may do with them. `create.ts` makes them, `reconcile.ts` runs them. */

import { and, eq, inArray, notInArray, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { emit } from "../../events/emit.ts";
import { transition } from "../../events/lifecycle.ts";
import { type PageQuery, page } from "../../http/answer/pagination.ts";
import { AppError } from "../../lib/errors.ts";
import { afterCommit, type Tx, write } from "../../platform/db/db.ts";
import { preparedRow } from "../../platform/db/row.ts";
import type * as budgets from "../billing/budget.ts";
import { runTime } from "../billing/run_time.ts";
import * as billing from "../billing/service.ts";
import * as snapshots from "../datasets/stream/snapshots.ts";
import * as looseKeys from "../loose_keys/service.ts";
import { mustBeOpen } from "../storage_usage/service.ts";
import { machine, report } from "./machine.ts";
import { present, type TrainingJob } from "./schema.ts";
import { charge, settle } from "./state/account.ts";
import { changed } from "./state/change_signals.ts";
import { isAtWork } from "./state/live.ts";
import { note } from "./state/notes.ts";
import { positionOf, reasonOf } from "./state/queue.ts";
import { type JobRow, trainingCheckpoints, trainingExports, trainingJobs } from "./table.ts";

const byId = preparedRow(trainingJobs, eq(trainingJobs.id, sql.placeholder("id")));

export const isFinished = ({ status }: Pick<JobRow, "status">) => machine.terminal.includes(status);

/** For work that goes on without a caller. */
export const current = ({ db }: { db: Ctx["db"] | Tx }, id: string): JobRow | undefined => byId(db, { id });

export function find(ctx: Pick<Ctx, "db">, workspaceId: string, id: string): JobRow | undefined {
  const row = current(ctx, id);
  return row?.workspaceId === workspaceId ? row : undefined;
}

export function mustGet(ctx: Pick<Ctx, "db">, workspaceId: string, id: string, param = "id"): JobRow {
  const row = find(ctx, workspaceId, id);
  if (!row) throw new AppError("resource_not_found", `No training job ${id.slice(0, 80)}`, { param });
  return row;
}

export const shown = (ctx: Ctx, row: JobRow): TrainingJob => show(ctx, row, true);

function show(ctx: Ctx, row: JobRow, whole: boolean): TrainingJob {
  const queuePosition = positionOf(ctx, row);
  return present(row, {
    now: runTime(ctx, row.id),
    whole,
    queuePosition,
    queueReason: reasonOf(ctx, row, queuePosition),
  });
}

type ListQuery = PageQuery & { status?: JobRow["status"] | undefined; method?: JobRow["method"] | undefined };

export function list(ctx: Ctx, workspaceId: string, query: ListQuery) {
  const { status, method } = query;
  const within = and(
    eq(trainingJobs.workspaceId, workspaceId),
    status === undefined ? undefined : eq(trainingJobs.status, status),
    method === undefined ? undefined : eq(trainingJobs.method, method),
  );
  return page(ctx.db, trainingJobs, within, query, (row) => show(ctx, row, false));
}

/** Ends a job, now or when its worker is gone. One that is being cancelled stays as it is. */
export function cancel(ctx: Ctx, workspaceId: string, id: string): JobRow {
  const before = mustGet(ctx, workspaceId, id);
  if (before.status === "cancelling") return before;
  return move(ctx, before, "cancelled", (tx, now) => {
    const row =
      transition(tx, machine, "cancel", { id, now }) ??
      transition(tx, machine, "drop", { id, now }, { completedAt: now, queueReason: null, pauseReason: null });
    if (row?.status === "cancelled") snapshots.unpin(tx, id);
    if (row) note(tx, row, now, { level: "info", type: `job.${row.status}`, message: WORDS[row.status] ?? "" });
    return row;
  });
}

const WORDS: Partial<Record<JobRow["status"], string>> = {
  cancelling: "Cancelled by request: its worker is being ended",
  cancelled: "Cancelled by request",
};

/** Its worker saves and ends; the row says so at once. */
export function pause(ctx: Ctx, workspaceId: string, id: string): JobRow {
  return move(ctx, mustGet(ctx, workspaceId, id), "paused", (tx, now) => {
    const patch = { pauseReason: "by request" as const, queueReason: null, etaMs: null };
    const row = transition(tx, machine, "pause", { id, now }, patch);
    if (row) note(tx, row, now, { level: "info", type: "job.paused", message: "Paused by request" });
    return row;
  });
}

/**
 * Back into the queue, behind those who wait; it goes on from its newest checkpoint. From here on the key of `payer` pays,
 * unless the former run has not ended yet, which is charged to the former key.
 */
export function resume(ctx: Ctx, payer: budgets.Payer, id: string): JobRow {
  const before = mustGet(ctx, payer.workspaceId, id);
  if (before.status === "paused" && before.rateMicros) billing.mustAfford(ctx, payer, 0);
  if (before.status === "paused") mustBeOpen(ctx, { workspaceId: before.workspaceId, kind: "checkpoints" });
  return move(ctx, before, "resumed", (tx, now) => {
    const paused = current({ db: tx }, id);
    if (paused?.status !== "paused") return undefined;
    const apiKeyId = paused.runSince === null ? payer.keyId : paused.apiKeyId;
    const patch = { queuedAt: now, pauseReason: null, queueReason: null, crashes: 0, notBefore: 0, apiKeyId };
    const row = transition(tx, machine, "requeue", { id, now }, patch);
    if (row) note(tx, row, now, { level: "info", type: "job.requeued", message: "Resumed by request" });
    return row;
  });
}

type Step = (tx: Tx, now: number) => JobRow | undefined;

function move(ctx: Ctx, before: JobRow, what: string, step: Step): JobRow {
  const row = write(ctx.db, (tx) => {
    const moved = step(tx, ctx.clock.now());
    if (moved) afterCommit(tx, () => changed(ctx, moved.id));
    return moved;
  });
  ctx.wake("training_jobs.reconcile");
  if (row) return row;
  throw new AppError("unsupported_state", `Training job ${before.id} is ${before.status}: it cannot be ${what}`, {
    param: "id",
  });
}

/** A finished one. Its files go when the loop finds a directory without a job; models that it made stay. */
export function remove(ctx: Ctx, workspaceId: string, id: string): JobRow {
  const row = mustGet(ctx, workspaceId, id);
  if (!isFinished(row))
    throw new AppError("unsupported_state", `Training job ${id} is ${row.status}: cancel it first`, { param: "id" });
  if (isAtWork(ctx, id))
    throw new AppError(
      "unsupported_state",
      `Training job ${id} is ${row.status}, its worker is still ending: try again`,
      {
        param: "id",
      },
    );
  write(ctx.db, (tx) => {
    const user = neededBy(tx, id);
    if (user)
      throw new AppError(
        "unsupported_state",
        `Training job ${user} begins with a checkpoint of ${id}: cancel it or wait for its end`,
        { param: "id" },
      );
    erase(ctx, tx, row);
  });
  return row;
}

/** A job that has not ended and was told to begin with what this one learned. */
function neededBy(tx: Tx, id: string): string | undefined {
  const own = tx
    .select({ id: trainingCheckpoints.id })
    .from(trainingCheckpoints)
    .where(eq(trainingCheckpoints.jobId, id));
  return tx
    .select({ id: trainingJobs.id })
    .from(trainingJobs)
    .where(and(notInArray(trainingJobs.status, [...machine.terminal]), inArray(trainingJobs.resumeFrom, own)))
    .get()?.id;
}

function erase(ctx: Ctx, tx: Tx, row: JobRow) {
  const now = ctx.clock.now();
  const { storageKey, jobId } = trainingExports;
  const files = tx.select({ storageKey }).from(trainingExports).where(eq(jobId, row.id)).all();
  for (const key of [row.logKey, ...files.map((each) => each.storageKey)]) if (key) looseKeys.drop(tx, key, now);
  snapshots.unpin(tx, row.id);
  charge(ctx, tx, settle(ctx, row), now); // its worker may still be ending
  tx.delete(trainingJobs).where(eq(trainingJobs.id, row.id)).run();
  emit(tx, "job.deleted", { workspaceId: row.workspaceId, now }, report(row));
  afterCommit(tx, () => {
    ctx.wake("training_jobs.sweep");
    ctx.wake("volumes.sweep");
  });
}

/** The workspace is gone: what it runs is ended, what has ended goes, and the loop takes the rest when it has. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const rows = () => ctx.db.select().from(trainingJobs).where(eq(trainingJobs.workspaceId, workspaceId)).all();
  for (const row of rows()) if (!isFinished(row)) cancel(ctx, workspaceId, row.id);
  for (const row of rows()) if (isFinished(row)) write(ctx.db, (tx) => erase(ctx, tx, row));
}
