/** Every change of a job's state that is not a caller's, with its note and its cost in the same commit. */

import { and, eq, gt, inArray, isNotNull } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import { afterCommit, type Tx, write } from "../../../platform/db/db.ts";
import type { TrainSample } from "../../../workers/protocol_trainer.ts";
import { beginRun, runTime } from "../../billing/run_time.ts";
import type { Shortage } from "../../billing/service.ts";
import * as snapshots from "../../datasets/stream/snapshots.ts";
import { type Action, machine } from "../machine.ts";
import { isShortage, judgeEnd, type RunEnd, type Verdict } from "../policy.ts";
import * as jobs from "../service.ts";
import {
  type CheckpointRow,
  type JobError,
  type JobRow,
  trainingJobs,
  trainingMetrics,
  trainingSamples,
} from "../table.ts";
import { charge, lastSeen, type Patch, type Settled, seenNow, settle, settleUnseen } from "./account.ts";
import { changed } from "./change_signals.ts";
import { type Note, note } from "./notes.ts";

export const current = (db: Ctx["db"] | Tx, id: string): JobRow | undefined => jobs.current({ db }, id);

/** `settled`: the run that ends with it. */
type Move = { patch?: Patch; settled?: Settled; note: Note };

/** One move. Undefined: the row was elsewhere, and nothing happened. */
function move(ctx: Ctx, tx: Tx, job: Pick<JobRow, "id">, action: Action, how: Move): JobRow | undefined {
  const now = ctx.clock.now();
  const row = transition(tx, machine, action, { id: job.id, now }, { ...how.settled?.patch, ...how.patch });
  if (!row) return undefined;
  if (how.settled) charge(ctx, tx, how.settled, now);
  note(tx, row, now, how.note);
  if (row.completedAt !== null) snapshots.unpin(tx, row.id);
  afterCommit(tx, () => changed(ctx, row.id));
  return row;
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
    beginRun(ctx, job.id);
    afterCommit(tx, () => ctx.wake("energy.sample")); // a short run is measured too
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
    settled: settle(ctx, job),
    patch: { completedAt: ctx.clock.now(), etaMs: 0, error: null },
    note: { level: "info", type: "job.completed", message: "It is complete" },
  });

/** `sample`: a completion that shows it. */
export function fail(ctx: Ctx, id: string, error: JobError, sample?: TrainSample | null): JobRow | undefined {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const job = current(tx, id);
    if (!job) return undefined;
    const patch = { error, completedAt: now, queueReason: null, etaMs: null };
    const data = { code: error.code, param: error.param, ...(sample ? { sample } : {}) };
    return move(ctx, tx, job, "fail", {
      patch,
      settled: settle(ctx, job),
      note: { level: "error", type: "job.failed", message: error.message, data },
    });
  });
}

/** Cancelled for good: its worker, if there was one, is gone. */
export function drop(ctx: Ctx, id: string, settleRun = (job: JobRow) => settle(ctx, job)): JobRow | undefined {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const job = current(tx, id);
    if (!job) return undefined;
    const patch = { completedAt: now, queueReason: null, etaMs: null };
    return move(ctx, tx, job, "drop", {
      patch,
      settled: settleRun(job),
      note: { level: "info", type: "job.cancelled", message: "It was cancelled" },
    });
  });
}

const SHORTAGES: Record<Shortage, string> = {
  "out of credit":
    "Paused: the workspace is out of credit. It goes on from its newest checkpoint once credit is granted",
  "out of budget":
    "Paused: the API key that started it has spent its monthly budget. It goes on from its newest checkpoint next month, or when it is resumed with another key",
};

/** Its payer is out of money: its worker saves and ends, and it goes on when there is money again. */
export function pauseForMoney(ctx: Ctx, id: string, short: Shortage): JobRow | undefined {
  const patch: Patch = { pauseReason: short, queueReason: null, etaMs: null };
  const message = SHORTAGES[short];
  return write<JobRow | undefined>(ctx.db, (tx) =>
    move(ctx, tx, { id }, "pause", { patch, note: { level: "warn", type: "job.paused", message } }),
  );
}

/**
 * The workspace may keep no more checkpoints: the worker saves once more and ends, so that nothing learned is lost. It
 * goes on when it is resumed, which takes room.
 */
export function pauseForStorage(ctx: Ctx, id: string, why: string): JobRow | undefined {
  const patch: Patch = { pauseReason: "out of storage", queueReason: null, etaMs: null };
  const message = `Paused: ${why}. Delete checkpoints, exports or finished jobs and resume it, or have the setting raised`;
  return write<JobRow | undefined>(ctx.db, (tx) =>
    move(ctx, tx, { id }, "pause", { patch, note: { level: "warn", type: "job.paused", message } }),
  );
}

/** There is credit, or budget, again. */
export function resumeWithMoney(ctx: Ctx, id: string): JobRow | undefined {
  const patch: Patch = { ...REQUEUED, queuedAt: ctx.clock.now() };
  const message = "There is credit again: it goes on from its newest checkpoint";
  return write<JobRow | undefined>(ctx.db, (tx) =>
    isShortage(current(tx, id)?.pauseReason)
      ? move(ctx, tx, { id }, "requeue", { patch, note: { level: "info", type: "job.requeued", message } })
      : undefined,
  );
}

/** Of a job that was paused. */
const REQUEUED = { pauseReason: null, queueReason: null, crashes: 0, notBefore: 0 } satisfies Patch;

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
        patch: verdict.patch,
        settled: settle(ctx, job),
        note: { level: verdict.level, type: "job.requeued", message: capitalized(verdict.why) },
      });
    else if (verdict.next === "nothing") leaveRun(ctx, tx, job, settle(ctx, job));
    return verdict.next;
  });
}

/** The row stays where it is; its run is over. */
function leaveRun(ctx: Ctx, tx: Tx, job: JobRow, settled: Settled) {
  if (!settled.bill) return;
  tx.update(trainingJobs).set(settled.patch).where(eq(trainingJobs.id, job.id)).run();
  charge(ctx, tx, settled, ctx.clock.now());
}

const SEEN_EVERY_MS = 15_000;

/** It is at work: should the server be killed, the run is charged up to here at least. */
export function seen(ctx: Ctx, job: JobRow) {
  if (job.runSince === null || runTime(ctx, job.id) - lastSeen(job) < SEEN_EVERY_MS) return;
  const going = and(eq(trainingJobs.id, job.id), isNotNull(trainingJobs.runSince));
  write(ctx.db, (tx) => tx.update(trainingJobs).set(seenNow(ctx, job)).where(going).run());
}

/** The server closes under a run: the row stays as it is, and the next start takes it up again. */
export const suspend = (ctx: Ctx, id: string) =>
  write(ctx.db, (tx) => {
    const job = current(tx, id);
    if (job) leaveRun(ctx, tx, job, settle(ctx, job));
  });

/** Once, at the start: no run outlived the server before. How long the runs took is known up to their last sign. */
export function interrupted(ctx: Ctx) {
  const lost = inArray(trainingJobs.status, ["provisioning", "running", "cancelling"]);
  for (const job of ctx.db.select().from(trainingJobs).where(lost).all())
    write(ctx.db, (tx) => {
      if (job.status === "cancelling") return void drop(ctx, job.id, settleUnseen);
      const message = "The server was restarted: it goes on from its newest checkpoint";
      const settled = settleUnseen(job);
      const note: Note = { level: "warn", type: "job.requeued", message };
      return void move(ctx, tx, job, "requeue", { patch: { notBefore: 0 }, settled, note });
    });
  for (const job of ctx.db.select().from(trainingJobs).where(isNotNull(trainingJobs.runSince)).all())
    write(ctx.db, (tx) => leaveRun(ctx, tx, job, settleUnseen(job))); // paused, its worker still at it
}

const capitalized = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
