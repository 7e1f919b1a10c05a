/**
 * Reports a job to its tracker, piece by piece. After each piece, what was sent is written down. A crash or a lost
 * answer leaves a doubt: then MLflow is asked what it has, and W&B gets the same piece again, which changes nothing.
 * So nothing is lost and nothing counts twice. The job itself is only read.
 */
import { and, asc, eq, gt, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { newId } from "../../../lib/ids.ts";
import { durable, isDirty, type Tx, write } from "../../../platform/db/db.ts";
import { preparedRow } from "../../../platform/db/row.ts";
import { type JobRow, trainingEvents, trainingJobs, trainingMetrics } from "../training_jobs/table.ts";
import { callOf, TRACKERS } from "./call.ts";
import { type Point, TrackerError } from "./contract.ts";
import { missing } from "./mlflow.ts";
import * as plan from "./plan.ts";
import { type TrackerRunRow, trackerRuns } from "./table.ts";

const POLL_MS = 2_000;
const MOST_PIECES = 50; // then other jobs of the same tracker have their turn
const READ_POINTS = 200;

const runByJob = preparedRow(trackerRuns, eq(trackerRuns.jobId, sql.placeholder("jobId")));
const jobById = preparedRow(trainingJobs, eq(trainingJobs.id, sql.placeholder("id")));

type Patch = Partial<typeof trackerRuns.$inferInsert>;
type Work = { run: TrackerRunRow; job: JobRow; points: Point[] };
/** `down`: the fault is the tracker's, not the run's. */
export type ReportResult = "ok" | "refused" | "down";

export async function report(ctx: Ctx, jobId: string): Promise<ReportResult> {
  const { newestSteps, signal } = ctx.state.tracker;
  for (let pieces = 0; pieces < MOST_PIECES && !signal.aborted; pieces++) {
    const run = runByJob(ctx.db, { jobId });
    const job = jobById(ctx.db, { id: jobId });
    if (!run || !job || run.nextAt === null) break;
    const work = { run, job, points: plan.firstFew(pointsAfter(ctx, run)) };
    const piece = pieceOf(ctx, work);
    if (piece === "nothing" || piece === "wait") {
      if (piece === "nothing") newestSteps.delete(jobId);
      keep(ctx, run, { nextAt: piece === "wait" ? ctx.clock.now() + POLL_MS : null });
      break;
    }
    try {
      if (isDirty(ctx.db)) await durable(ctx.db); // nothing is sent that a power cut could take back
      const patch = await send(ctx, work, piece);
      keep(ctx, run, { ...patch, sentAt: ctx.clock.now() });
    } catch (error) {
      if (signal.aborted) break;
      newestSteps.delete(jobId);
      return fail(ctx, run, error);
    }
  }
  return "ok";
}

function pieceOf(ctx: Ctx, { run, job, points }: Work): plan.Piece {
  const progress = {
    isOpen: run.remote !== null,
    paramsSent: run.paramsSent,
    stateSent: run.stateSent,
    sentAt: run.sentAt,
  };
  const beats = TRACKERS[run.type].beat !== undefined;
  const state = plan.stateOf(job.status, job.startedAt);
  return plan.nextPiece(progress, { state, hasPoints: points.length > 0, beats }, ctx.clock.now());
}

async function send(ctx: Ctx, work: Work, piece: plan.Piece): Promise<Patch> {
  const { run, job, points } = work;
  const tracker = TRACKERS[run.type];
  const { newestSteps, signal } = ctx.state.tracker;
  const call = callOf(ctx, run, signal);
  const { remote } = run;
  if (piece === "open" || remote === null) {
    const subject = { jobId: job.id, name: job.outputName, method: job.method, createdAt: job.createdAt };
    return { remote: await tracker.open(call, { ...subject, project: run.project }, run.baseUrl) };
  }
  if (piece === "params") {
    await tracker.sendParams(call, remote, paramsOf(job));
    return { paramsSent: true };
  }
  if (piece === "points") {
    const sentSteps = newestSteps.get(job.id) ?? (await tracker.has?.(call, remote));
    const unsent = sentSteps ? missing(points, sentSteps) : points;
    if (unsent.length > 0) await tracker.sendPoints(call, remote, unsent, run.pointsSent);
    if (sentSteps) newestSteps.set(job.id, sentSteps);
    return { lastStepSent: points.at(-1)?.step ?? run.lastStepSent, pointsSent: run.pointsSent + points.length };
  }
  if (piece === "beat") {
    await tracker.beat?.(call, remote);
    return {};
  }
  const state = plan.stateOf(job.status, job.startedAt);
  await tracker.sendState(call, remote, state, job.completedAt ?? ctx.clock.now());
  return { stateSent: state };
}

/** The parameters of a job. They hold no code, no command and no secret. */
function paramsOf(job: JobRow): Record<string, string> {
  const { method, baseModel: base_model, seed, datasetId: dataset, numRows: num_rows } = job;
  const fields = { method, base_model, seed, dataset, num_rows, gpu_type: job.gpuType, gpu_count: job.gpuCount };
  return plan.flatten({ ...fields, lora: job.lora, ...job.hyperparameters });
}

/** A run that goes back to a checkpoint repeats steps. Steps that were sent are not sent again. */
function pointsAfter(ctx: Ctx, run: TrackerRunRow): Point[] {
  return ctx.db
    .select()
    .from(trainingMetrics)
    .where(and(eq(trainingMetrics.jobId, run.jobId), gt(trainingMetrics.step, run.lastStepSent)))
    .orderBy(asc(trainingMetrics.step))
    .limit(READ_POINTS)
    .all()
    .map(({ step, time, values }) => {
      const finite = Object.entries(values).filter(([, value]) => Number.isFinite(value));
      return { step, time, values: Object.fromEntries(finite) };
    });
}

/** Returns false if the run was moved to another tracker, or detached, while the request was in flight. */
function update(tx: Tx, { jobId, type, baseUrl, project }: TrackerRunRow, set: Patch): boolean {
  const { jobId: id, type: kind, baseUrl: url, project: name } = trackerRuns;
  const same = and(eq(id, jobId), eq(kind, type), eq(url, baseUrl), eq(name, project));
  return tx.update(trackerRuns).set(set).where(same).returning({ id }).all().length > 0;
}

function keep(ctx: Ctx, run: TrackerRunRow, patch: Patch) {
  const { jobId } = run;
  const well = { failures: 0, refusals: 0, failingSince: null, lastError: null, updatedAt: ctx.clock.now() };
  write(ctx.db, (tx) => {
    if (update(tx, run, { ...well, ...patch }) && patch.remote)
      tx.update(trainingJobs).set({ trackerRunUrl: patch.remote.url }).where(eq(trainingJobs.id, jobId)).run();
  });
}

function fail(ctx: Ctx, run: TrackerRunRow, error: unknown): ReportResult {
  const trackerError = error instanceof TrackerError ? error : undefined;
  if (!trackerError) ctx.log.error("a report to a tracker failed", { job: run.jobId, error });
  const now = ctx.clock.now();
  const failures = run.failures + 1;
  const refusals = run.refusals + (trackerError?.kind === "refused" ? 1 : 0);
  const failingSince = run.failingSince ?? now;
  const isOver = plan.givesUp({ refusals, failingSince }, now);
  const lastError = (trackerError?.message ?? "Unexpected server error; the log has the details").slice(0, 500);
  const nextAt = isOver ? null : now + plan.pauseAfter(failures);
  write(ctx.db, (tx) => {
    const set = { failures, refusals, failingSince, lastError, nextAt, updatedAt: now };
    if (!update(tx, run, set) || !isOver || !jobById(tx, { id: run.jobId })) return;
    const { jobId, workspaceId } = run;
    const note = {
      level: "warn" as const,
      type: "tracker.given_up",
      message: `Reporting to the tracker stopped: ${lastError}`,
    };
    tx.insert(trainingEvents)
      .values({ id: newId("evt", now), jobId, workspaceId, ...note, data: {}, createdAt: now })
      .run();
  });
  return trackerError?.kind === "refused" ? "refused" : "down";
}
