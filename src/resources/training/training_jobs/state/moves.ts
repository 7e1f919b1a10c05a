/** Every change of a job's status that no caller asked for. The note and the charge are in the same commit. */
import { and, eq, gt, inArray, isNotNull, lt, type SQL } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { MINUTE_MS } from "../../../../lib/units.ts";
import { afterCommit, type Tx, write } from "../../../../platform/db/db.ts";
import type { TrainSample } from "../../../../workers/protocol_trainer.ts";
import * as snapshots from "../../../data/datasets/stream/snapshots.ts";
import { beginRun, runTime } from "../../../money/billing/run_time.ts";
import { costOf, type Shortage } from "../../../money/billing/service.ts";
import type { Action } from "../machine.ts";
import { exceededLimit, isShortage, judgeEnd, type RunEnd, type Verdict } from "../policy.ts";
import { openRuns } from "../remote_runs.ts";
import {
  type CheckpointRow,
  type JobError,
  type JobRow,
  trainingJobs,
  trainingMetrics,
  trainingSamples,
} from "../table.ts";
import { activeNow, charge, lastActive, type Patch, type Settlement, settle, settleLost } from "./account.ts";
import { type Note, step as stepJob } from "./notes.ts";
import { currentJob } from "./rows.ts";

/** `settlement`: for a move that ends a run. */
type Move = { patch?: Patch; settlement?: Settlement; note: Omit<Note, "type"> };

/** Undefined if the row's status does not allow the action; then nothing has changed. */
function move(ctx: Ctx, tx: Tx, job: Pick<JobRow, "id">, action: Action, how: Move): JobRow | undefined {
  const now = ctx.clock.now();
  const patch = { ...how.settlement?.patch, ...how.patch };
  const row = stepJob(tx, { id: job.id, action, now, patch }, how.note);
  if (!row) return undefined;
  if (how.settlement) charge(ctx, tx, how.settlement, now);
  if (row.completedAt !== null) snapshots.unpin(tx, row.id);
  afterCommit(tx, () => ctx.state.trainingJobs.changes.notify(row.id));
  return row;
}

export function setQueueReason(ctx: Ctx, job: JobRow, queueReason: string | null) {
  if (job.queueReason === queueReason) return;
  write(ctx.db, (tx) => tx.update(trainingJobs).set({ queueReason }).where(eq(trainingJobs.id, job.id)).run());
}

/**
 * Starts a run that has its memory, from `checkpoint` or from the beginning. Metrics and samples of later steps are
 * deleted in the same commit, because the run reports those steps again.
 */
export function provision(ctx: Ctx, job: JobRow, checkpoint: CheckpointRow | undefined): JobRow | undefined {
  const now = ctx.clock.now();
  const step = checkpoint?.step ?? 0;
  return write(ctx.db, (tx) => {
    const message = step === 0 ? "Provisioning" : `Provisioning; resuming after step ${step}`;
    const patch = {
      gpu: { type: job.gpuType, count: job.gpuCount },
      queueReason: null,
      runSince: now,
      step,
      latestMetrics: checkpoint?.metrics ?? {},
      etaMs: null,
    };
    const row = move(ctx, tx, job, "provision", { patch, note: { level: "info", message } });
    if (!row) return undefined;
    beginRun(ctx, job.id);
    afterCommit(tx, () => ctx.wake("energy.sample")); // a run of a few seconds is measured too
    tx.delete(trainingMetrics)
      .where(and(eq(trainingMetrics.jobId, job.id), gt(trainingMetrics.step, step)))
      .run();
    tx.delete(trainingSamples)
      .where(and(eq(trainingSamples.jobId, job.id), gt(trainingSamples.step, step)))
      .run();
    return row;
  });
}

type Start = { device: string; memoryBytes: number; totalSteps?: number };

/** The first step of a run begins. */
export function markRunning(ctx: Ctx, id: string, { device, memoryBytes, totalSteps }: Start): JobRow | undefined {
  return write(ctx.db, (tx) => {
    const job = currentJob(tx, id);
    if (!job) return undefined;
    const patch = { startedAt: job.startedAt ?? ctx.clock.now(), totalSteps: totalSteps ?? job.totalSteps };
    const message = job.step === 0 ? `Running on ${device}` : `Running on ${device}; resumed after step ${job.step}`;
    const data = { device, memory_bytes: memoryBytes, step: job.step };
    return move(ctx, tx, job, "run", { patch, note: { level: "info", message, data } });
  });
}

export const complete = (ctx: Ctx, tx: Tx, job: JobRow, stoppedEarly: string | null = null): JobRow | undefined =>
  move(ctx, tx, job, "complete", {
    settlement: settle(ctx, job),
    patch: { completedAt: ctx.clock.now(), etaMs: 0, error: null, stoppedEarly },
    note: {
      level: "info",
      message: stoppedEarly === null ? "Completed" : `Completed after step ${job.step}, stopped early: ${stoppedEarly}`,
      ...(stoppedEarly === null ? {} : { data: { stopped_early: stoppedEarly } }),
    },
  });

/** `sample`: a completion that shows the cause. */
export const fail = (ctx: Ctx, id: string, error: JobError, sample?: TrainSample | null): JobRow | undefined =>
  end(ctx, id, "fail", { error, sample });

/** The dataset of a job that has not started cannot be read. A paused job reads on, so it may fail too. */
export const failReading = (ctx: Ctx, id: string, error: JobError): JobRow | undefined =>
  end(ctx, id, "reject", { error });

type Cause = { error: JobError; sample?: TrainSample | null | undefined };

function end(ctx: Ctx, id: string, action: "fail" | "reject", { error, sample }: Cause): JobRow | undefined {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const job = currentJob(tx, id);
    if (!job) return undefined;
    const patch = { error, completedAt: now, queueReason: null, pauseReason: null, etaMs: null };
    const data = { code: error.code, param: error.param, ...(sample ? { sample } : {}) };
    return move(ctx, tx, job, action, {
      patch,
      settlement: settle(ctx, job),
      note: { level: "error", message: error.message, data },
    });
  });
}

/** Call it when the worker of a cancelled job has ended. */
export function finishCancel(ctx: Ctx, id: string, settleRun = (job: JobRow) => settle(ctx, job)): JobRow | undefined {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const job = currentJob(tx, id);
    if (!job) return undefined;
    const patch = { completedAt: now, queueReason: null, etaMs: null };
    return move(ctx, tx, job, "drop", {
      patch,
      settlement: settleRun(job),
      note: { level: "info", message: "Cancelled" },
    });
  });
}

const SHORTAGES: Record<Shortage, string> = {
  "out of credit":
    "Paused: the workspace is out of credit. The job resumes from its newest checkpoint when credit is granted",
  "out of budget":
    "Paused: the API key that pays for this job has spent its monthly budget. The job resumes from its newest checkpoint next month; resume it with another key to go on now",
};

/** The worker saves and ends. `enforceCredit` resumes the job when its payer can pay again. */
export function pauseForCredit(ctx: Ctx, id: string, shortage: Shortage): JobRow | undefined {
  const patch: Patch = { pauseReason: shortage, queueReason: null, etaMs: null };
  const message = SHORTAGES[shortage];
  return write<JobRow | undefined>(ctx.db, (tx) =>
    move(ctx, tx, { id }, "pause", { patch, note: { level: "warn", message } }),
  );
}

/**
 * The workspace may keep no more checkpoints. The worker saves once more and ends, so that no progress is lost. Only a
 * caller resumes the job, because room must be made first.
 */
export function pauseForStorage(ctx: Ctx, id: string, why: string): JobRow | undefined {
  const patch: Patch = { pauseReason: "out of storage", queueReason: null, etaMs: null };
  const message = `Paused: ${why}. Delete checkpoints, exports or finished jobs, or ask for a higher limit; then resume the job`;
  return write<JobRow | undefined>(ctx.db, (tx) =>
    move(ctx, tx, { id }, "pause", { patch, note: { level: "warn", message } }),
  );
}

/** Does nothing for a job that was paused for another reason. */
export function resumeFromCredit(ctx: Ctx, id: string): JobRow | undefined {
  const patch: Patch = { ...REQUEUED, queuedAt: ctx.clock.now() };
  const message = "Credit is available again; resuming from the newest checkpoint";
  return write<JobRow | undefined>(ctx.db, (tx) =>
    isShortage(currentJob(tx, id)?.pauseReason)
      ? move(ctx, tx, { id }, "requeue", { patch, note: { level: "info", message } })
      : undefined,
  );
}

const REQUEUED = { pauseReason: null, queueReason: null, crashes: 0, notBefore: 0 } satisfies Patch;

/** Applies the verdict on a run that has ended, and returns it. "complete" is left to the caller: files come first. */
export function conclude(ctx: Ctx, id: string, end: RunEnd): Verdict["next"] {
  const now = ctx.clock.now();
  return write<Verdict["next"]>(ctx.db, (tx) => {
    const job = currentJob(tx, id);
    if (!job) return "nothing";
    const verdict = judgeEnd(job, end, { crashLimit: ctx.config.training.crash_limit, now });
    if (verdict.next === "fail") fail(ctx, id, verdict.error, verdict.sample);
    else if (verdict.next === "drop") finishCancel(ctx, id);
    else if (verdict.next === "requeue")
      move(ctx, tx, job, "requeue", {
        patch: verdict.patch,
        settlement: settle(ctx, job),
        note: { level: verdict.level, message: capitalized(verdict.why) },
      });
    else if (verdict.next === "nothing") closeRun(ctx, tx, job, settle(ctx, job));
    return verdict.next;
  });
}

/** Ends the run in the row without a change of status. */
function closeRun(ctx: Ctx, tx: Tx, job: JobRow, settlement: Settlement) {
  if (!settlement.bill) return;
  tx.update(trainingJobs).set(settlement.patch).where(eq(trainingJobs.id, job.id)).run();
  charge(ctx, tx, settlement, ctx.clock.now());
}

/** The limit that the present run has passed. */
export function exceeded(ctx: Ctx, job: JobRow): JobError | null {
  const now = runTime(ctx, job.id);
  const runMicros = job.runSince === null ? 0 : costOf(job.rateMicros, now - job.runSince);
  return exceededLimit(job, { runtimeMs: ctx.config.training.max_runtime_minutes * MINUTE_MS, runMicros, now });
}

/** A run that waits in the queue of a scheduler costs nothing, and its time does not count. */
export function restartClock(ctx: Ctx, id: string) {
  const now = runTime(ctx, id);
  const isWaiting = and(
    ...[eq(trainingJobs.id, id), eq(trainingJobs.status, "provisioning")],
    lt(trainingJobs.runSince, now - CLOCK_EVERY_MS),
  );
  write(ctx.db, (tx) => tx.update(trainingJobs).set({ runSince: now, runUntil: null }).where(isWaiting).run());
}

const CLOCK_EVERY_MS = 5_000;
const ACTIVITY_EVERY_MS = 15_000;

/** If the server is killed, the run is charged at least up to here. */
export function recordActivity(ctx: Ctx, job: JobRow) {
  if (job.runSince === null || runTime(ctx, job.id) - lastActive(job) < ACTIVITY_EVERY_MS) return;
  const isOpen = and(eq(trainingJobs.id, job.id), isNotNull(trainingJobs.runSince));
  write(ctx.db, (tx) => tx.update(trainingJobs).set(activeNow(ctx, job)).where(isOpen).run());
}

/** The server stops during a run. The status stays, so that the next server starts the job again. */
export const suspend = (ctx: Ctx, id: string) =>
  write(ctx.db, (tx) => {
    const job = currentJob(tx, id);
    if (job) closeRun(ctx, tx, job, settle(ctx, job));
  });

/**
 * Call it once, at the start: no run on this machine outlives its server. Lost runs are charged up to their last
 * activity. Runs on other machines go on.
 */
export function requeueInterrupted(ctx: Ctx) {
  const remote = new Set(openRuns(ctx.db).map(({ jobId }) => jobId));
  const lost = (which: SQL) =>
    ctx.db
      .select()
      .from(trainingJobs)
      .where(which)
      .all()
      .filter(({ id }) => !remote.has(id));
  for (const job of lost(inArray(trainingJobs.status, ["provisioning", "running", "cancelling"])))
    write(ctx.db, (tx) => {
      if (job.status === "cancelling") return void finishCancel(ctx, job.id, settleLost);
      const message = "The server restarted; resuming from the newest checkpoint";
      const settlement = settleLost(job);
      return void move(ctx, tx, job, "requeue", {
        patch: { notBefore: 0 },
        settlement,
        note: { level: "warn", message },
      });
    });
  for (const job of lost(isNotNull(trainingJobs.runSince)))
    write(ctx.db, (tx) => closeRun(ctx, tx, job, settleLost(job))); // paused while its worker was still saving
}

const capitalized = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
