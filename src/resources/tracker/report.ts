/**
 * Tells a tracker what it does not know of a job, piece by piece. What was told is written down after each piece; where
 * a crash or a lost answer leaves a doubt, the tracker is asked what it has (MLflow), or is told the same again, which
 * it takes as the same (W&B). So nothing is lost and nothing counts twice. The job itself is only read.
 */
import { and, asc, eq, gt, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { newId } from "../../lib/ids.ts";
import { durable, isDirty, type Tx, write } from "../../platform/db/db.ts";
import { preparedRow } from "../../platform/db/row.ts";
import { type JobRow, trainingEvents, trainingJobs, trainingMetrics } from "../training_jobs/table.ts";
import { callOf, TRACKERS } from "./call.ts";
import { type Point, TrackerError } from "./contract.ts";
import type { Live } from "./live.ts";
import { missing } from "./mlflow.ts";
import * as plan from "./plan.ts";
import { type TrackerRunRow, trackerRuns } from "./table.ts";

const POLL_MS = 2_000;
const MOST_PIECES = 50; // then others of the same tracker have their turn
const LOOK_POINTS = 200;

const runByJob = preparedRow(trackerRuns, eq(trackerRuns.jobId, sql.placeholder("jobId")));
const jobById = preparedRow(trainingJobs, eq(trainingJobs.id, sql.placeholder("id")));

type Patch = Partial<typeof trackerRuns.$inferInsert>;
type Work = { run: TrackerRunRow; job: JobRow; points: Point[] };
/** `down`: the tracker, not the run, is the trouble. */
export type Told = "well" | "refused" | "down";

export async function tell(ctx: Ctx, live: Live, jobId: string): Promise<Told> {
  for (let pieces = 0; pieces < MOST_PIECES && !live.closing.signal.aborted; pieces++) {
    const run = runByJob(ctx.db, { jobId });
    const job = jobById(ctx.db, { id: jobId });
    if (!run || !job || run.nextAt === null) break;
    const work = { run, job, points: plan.firstFew(pointsAfter(ctx, run)) };
    const piece = pieceOf(ctx, work);
    if (piece === "nothing" || piece === "wait") {
      if (piece === "nothing") live.known.delete(jobId);
      keep(ctx, run, { nextAt: piece === "wait" ? ctx.clock.now() + POLL_MS : null });
      break;
    }
    try {
      if (isDirty(ctx.db)) await durable(ctx.db); // nothing is told that a power cut could take back
      const patch = await send(ctx, live, work, piece);
      keep(ctx, run, { ...patch, toldAt: ctx.clock.now() });
    } catch (error) {
      if (live.closing.signal.aborted) break;
      live.known.delete(jobId);
      return fail(ctx, run, error);
    }
  }
  return "well";
}

function pieceOf(ctx: Ctx, { run, job, points }: Work): plan.Piece {
  const progress = {
    isOpen: run.place !== null,
    paramsTold: run.paramsTold,
    stateTold: run.stateTold,
    toldAt: run.toldAt,
  };
  const beats = TRACKERS[run.type].beat !== undefined;
  const state = plan.stateOf(job.status, job.startedAt);
  return plan.nextPiece(progress, { state, hasPoints: points.length > 0, beats }, ctx.clock.now());
}

async function send(ctx: Ctx, live: Live, work: Work, piece: plan.Piece): Promise<Patch> {
  const { run, job, points } = work;
  const tracker = TRACKERS[run.type];
  const call = callOf(ctx, run, live.closing.signal);
  const { place } = run;
  if (piece === "open" || place === null) {
    const subject = { jobId: job.id, name: job.outputName, method: job.method, createdAt: job.createdAt };
    return { place: await tracker.open(call, { ...subject, project: run.project }, run.baseUrl) };
  }
  if (piece === "params") {
    await tracker.tellParams(call, place, paramsOf(job));
    return { paramsTold: true };
  }
  if (piece === "points") {
    const known = live.known.get(job.id) ?? (await tracker.has?.(call, place));
    const untold = known ? missing(points, known) : points;
    if (untold.length > 0) await tracker.tellPoints(call, place, untold, run.pointsTold);
    if (known) live.known.set(job.id, known);
    return { stepTold: points.at(-1)?.step ?? run.stepTold, pointsTold: run.pointsTold + points.length };
  }
  if (piece === "beat") {
    await tracker.beat?.(call, place);
    return {};
  }
  const state = plan.stateOf(job.status, job.startedAt);
  await tracker.tellState(call, place, state, job.completedAt ?? ctx.clock.now());
  return { stateTold: state };
}

/** What a job was run with. No code, no command, no secret. */
function paramsOf(job: JobRow): Record<string, string> {
  const { method, baseModel: base_model, seed, datasetId: dataset, numRows: num_rows } = job;
  const own = { method, base_model, seed, dataset, num_rows, gpu_type: job.gpuType, gpu_count: job.gpuCount };
  return plan.flatten({ ...own, lora: job.lora, ...job.hyperparameters });
}

/** Steps that were told stay told: a run that goes back to a checkpoint repeats them, and they are not told again. */
function pointsAfter(ctx: Ctx, run: TrackerRunRow): Point[] {
  return ctx.db
    .select()
    .from(trainingMetrics)
    .where(and(eq(trainingMetrics.jobId, run.jobId), gt(trainingMetrics.step, run.stepTold)))
    .orderBy(asc(trainingMetrics.step))
    .limit(LOOK_POINTS)
    .all()
    .map(({ step, time, values }) => {
      const finite = Object.entries(values).filter(([, value]) => Number.isFinite(value));
      return { step, time, values: Object.fromEntries(finite) };
    });
}

/** False: while it was told it has moved to another tracker, or is told no more. */
function update(tx: Tx, { jobId, type, baseUrl, project }: TrackerRunRow, set: Patch): boolean {
  const { jobId: id, type: kind, baseUrl: url, project: name } = trackerRuns;
  const same = and(eq(id, jobId), eq(kind, type), eq(url, baseUrl), eq(name, project));
  return tx.update(trackerRuns).set(set).where(same).returning({ id }).all().length > 0;
}

function keep(ctx: Ctx, run: TrackerRunRow, patch: Patch) {
  const { jobId } = run;
  const well = { failures: 0, refusals: 0, failingSince: null, lastError: null, updatedAt: ctx.clock.now() };
  write(ctx.db, (tx) => {
    if (update(tx, run, { ...well, ...patch }) && patch.place)
      tx.update(trainingJobs).set({ trackerRunUrl: patch.place.url }).where(eq(trainingJobs.id, jobId)).run();
  });
}

function fail(ctx: Ctx, run: TrackerRunRow, error: unknown): Told {
  const known = error instanceof TrackerError ? error : undefined;
  if (!known) ctx.log.error("a tracker could not be told", { job: run.jobId, error });
  const now = ctx.clock.now();
  const failures = run.failures + 1;
  const refusals = run.refusals + (known?.kind === "refused" ? 1 : 0);
  const failingSince = run.failingSince ?? now;
  const isOver = plan.givesUp({ refusals, failingSince }, now);
  const lastError = (known?.message ?? "Unexpected trouble; the log has the details").slice(0, 500);
  const nextAt = isOver ? null : now + plan.pauseAfter(failures);
  write(ctx.db, (tx) => {
    const set = { failures, refusals, failingSince, lastError, nextAt, updatedAt: now };
    if (!update(tx, run, set) || !isOver || !jobById(tx, { id: run.jobId })) return;
    const { jobId, workspaceId } = run;
    const said = {
      level: "warn" as const,
      type: "tracker.given_up",
      message: `The tracker is not told any more: ${lastError}`,
    };
    tx.insert(trainingEvents)
      .values({ id: newId("evt", now), jobId, workspaceId, ...said, data: {}, createdAt: now })
      .run();
  });
  return known?.kind === "refused" ? "refused" : "down";
}
