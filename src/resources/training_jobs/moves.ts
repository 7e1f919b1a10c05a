/** Every change of a job's state that is not a caller's, with its note and its cost in the same commit. */
import { and, eq, gt, inArray, isNotNull } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { transition } from "../../events/lifecycle.ts";
import { afterCommit, type Tx, write } from "../../platform/db.ts";
import type { TrainSample } from "../../workers/protocol_trainer.ts";
import * as billing from "../billing/service.ts";
import * as datasets from "../datasets/service.ts";
import * as energy from "../energy/service.ts";
import { changed } from "./log_readers.ts";
import { type Action, machine } from "./machine.ts";
import { type Note, note } from "./notes.ts";
import { judgeEnd, type RunEnd, type Verdict } from "./policy.ts";
import * as jobs from "./service.ts";
import {
  type CheckpointRow,
  type JobError,
  type JobRow,
  trainingJobs,
  trainingMetrics,
  trainingSamples,
} from "./table.ts";

type Patch = Partial<typeof trainingJobs.$inferInsert>;

export const current = (db: Ctx["db"] | Tx, id: string): JobRow | undefined => jobs.current({ db }, id);

type Move = { patch?: Patch; note: Note };

/** One move. Undefined: the row was elsewhere, and nothing happened. */
function move(ctx: Ctx, tx: Tx, job: Pick<JobRow, "id">, action: Action, how: Move): JobRow | undefined {
  const now = ctx.clock.now();
  const row = transition(tx, machine, action, { id: job.id, now }, how.patch);
  if (!row) return undefined;
  note(tx, row, now, how.note);
  if (row.completedAt !== null) datasets.unpin(tx, row.id);
  afterCommit(tx, () => changed(ctx, row.id));
  return row;
}

/** A run that has ended becomes time and cost. Nothing where none goes on. */
export function settle(tx: Tx, job: JobRow, until: number): Patch {
  if (job.runSince === null) return {};
  const from = job.runSince;
  const to = Math.max(from, until);
  const { workspaceId, id: jobId, rateMicros: ratePerHourMicros } = job;
  const cost = billing.chargeJob(tx, { workspaceId, jobId, from, to, ratePerHourMicros });
  const used = { runMs: job.runMs + to - from, costMicros: job.costMicros + cost, ...energy.atEnd(job, to) };
  return { ...used, runSince: null, etaMs: null };
}

/** In the ledger's queue, or behind others: why. */
export function waits(ctx: Ctx, job: JobRow, queueReason: string | null) {
  if (job.queueReason === queueReason) return;
  write(ctx.db, (tx) => tx.update(trainingJobs).set({ queueReason }).where(eq(trainingJobs.id, job.id)).run());
}

/**
 * Memory is there and the run begins, from `checkpoint` or from the start. What was told of later steps is forgotten in
 * the same commit: it comes again.
 */
export function place(ctx: Ctx, job: JobRow, checkpoint: CheckpointRow | undefined): JobRow | undefined {
  const now = ctx.clock.now();
  const step = checkpoint?.step ?? 0;
  return write(ctx.db, (tx) => {
    const words = step === 0 ? "It is being prepared" : `It is being prepared, to go on after step ${step}`;
    const gpu = { type: job.gpuType, count: job.gpuCount };
    const patch = {
      gpu,
      queueReason: null,
      runSince: now,
      step,
      latestMetrics: checkpoint?.metrics ?? {},
      etaMs: null,
    };
    const row = move(ctx, tx, job, "place", {
      patch,
      note: { level: "info", type: "job.provisioning", message: words },
    });
    if (!row) return undefined;
    afterCommit(tx, () => ctx.wake(energy.SAMPLE)); // a short run is measured too
    tx.delete(trainingMetrics)
      .where(and(eq(trainingMetrics.jobId, job.id), gt(trainingMetrics.step, step)))
      .run();
    tx.delete(trainingSamples)
      .where(and(eq(trainingSamples.jobId, job.id), gt(trainingSamples.step, step)))
      .run();
    return row;
  });
}

type Begun = { device: string; memoryBytes: number; totalSteps?: number };

/** The first step begins. */
export function begin(ctx: Ctx, id: string, { device, memoryBytes, totalSteps }: Begun): JobRow | undefined {
  return write(ctx.db, (tx) => {
    const job = current(tx, id);
    if (!job) return undefined;
    const patch = { startedAt: job.startedAt ?? ctx.clock.now(), totalSteps: totalSteps ?? job.totalSteps };
    const message = job.step === 0 ? `It runs on ${device}` : `It goes on after step ${job.step} on ${device}`;
    const data = { device, memory_bytes: memoryBytes, step: job.step };
    return move(ctx, tx, job, "run", { patch, note: { level: "info", type: "job.running", message, data } });
  });
}

export const complete = (ctx: Ctx, tx: Tx, job: JobRow): JobRow | undefined =>
  move(ctx, tx, job, "complete", {
    patch: { ...settle(tx, job, ctx.clock.now()), completedAt: ctx.clock.now(), etaMs: 0, error: null },
    note: { level: "info", type: "job.completed", message: "It is complete" },
  });

/** `sample`: a completion that shows it. */
export function fail(ctx: Ctx, id: string, error: JobError, sample?: TrainSample | null): JobRow | undefined {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const job = current(tx, id);
    if (!job) return undefined;
    const patch = { ...settle(tx, job, now), error, completedAt: now, queueReason: null, etaMs: null };
    const data = { code: error.code, param: error.param, ...(sample ? { sample } : {}) };
    return move(ctx, tx, job, "fail", {
      patch,
      note: { level: "error", type: "job.failed", message: error.message, data },
    });
  });
}

/** Cancelled for good: its worker, if there was one, is gone. */
export function drop(ctx: Ctx, id: string): JobRow | undefined {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const job = current(tx, id);
    if (!job) return undefined;
    const patch = { ...settle(tx, job, now), completedAt: now, queueReason: null, etaMs: null };
    return move(ctx, tx, job, "drop", {
      patch,
      note: { level: "info", type: "job.cancelled", message: "It was cancelled" },
    });
  });
}

/** The end of a run, all but completion, which has work to do first. Says what was decided. */
export function conclude(ctx: Ctx, id: string, end: RunEnd): Verdict["next"] {
  const now = ctx.clock.now();
  return write<Verdict["next"]>(ctx.db, (tx) => {
    const job = current(tx, id);
    if (!job) return "nothing";
    const verdict = judgeEnd(job, end, { crashLimit: ctx.config.training.crash_limit, now });
    if (verdict.next === "fail") fail(ctx, id, verdict.error, verdict.sample);
    else if (verdict.next === "drop") drop(ctx, id);
    else if (verdict.next === "requeue")
      move(ctx, tx, job, "requeue", {
        patch: { ...settle(tx, job, now), ...verdict.patch },
        note: { level: verdict.level, type: "job.requeued", message: capitalized(verdict.why) },
      });
    else if (verdict.next === "nothing") put(tx, id, settle(tx, job, now));
    return verdict.next;
  });
}

function put(tx: Tx, id: string, patch: Patch) {
  if (Object.keys(patch).length > 0) tx.update(trainingJobs).set(patch).where(eq(trainingJobs.id, id)).run();
}

/** The server closes under a run: the row stays as it is, and the next start takes it up again. */
export const suspend = (ctx: Ctx, id: string) =>
  write(ctx.db, (tx) => {
    const job = current(tx, id);
    if (job) put(tx, id, settle(tx, job, ctx.clock.now()));
  });

/**
 * Once, at the start: no run outlived the server before. How long those ran is known up to the last word of them.
 */
export function interrupted(ctx: Ctx) {
  const now = ctx.clock.now();
  const lost = inArray(trainingJobs.status, ["provisioning", "running", "cancelling"]);
  for (const job of ctx.db.select().from(trainingJobs).where(lost).all())
    write(ctx.db, (tx) => {
      if (job.status === "cancelling") return void drop(ctx, job.id);
      const message = "The server was restarted: it goes on from its newest checkpoint";
      const patch = { ...settle(tx, job, Math.min(now, job.updatedAt)), notBefore: 0 };
      return void move(ctx, tx, job, "requeue", { patch, note: { level: "warn", type: "job.requeued", message } });
    });
  for (const job of ctx.db.select().from(trainingJobs).where(isNotNull(trainingJobs.runSince)).all())
    write(ctx.db, (tx) => put(tx, job.id, settle(tx, job, Math.min(now, job.updatedAt)))); // paused, its worker still at it
}

const capitalized = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
