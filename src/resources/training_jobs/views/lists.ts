/** Lists of a job's events, checkpoints and samples. */
import { and, asc, eq, gt, isNull, max } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { invalidCursor } from "../../../http/answer/cursor.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { type JobRow, trainingCheckpoints, trainingEvents, trainingSamples } from "../table.ts";
import { presentCheckpoint, presentEvent, presentSample, type SamplesQuery } from "./schema.ts";

export const events = (ctx: Ctx, job: JobRow, query: PageQuery) =>
  page(ctx.db, trainingEvents, eq(trainingEvents.jobId, job.id), query, presentEvent);

/** Checkpoints whose files exist. */
export const checkpoints = (ctx: Ctx, job: JobRow, query: PageQuery) =>
  page(
    ctx.db,
    trainingCheckpoints,
    and(eq(trainingCheckpoints.jobId, job.id), isNull(trainingCheckpoints.deletedAt)),
    query,
    (row) => presentCheckpoint(row, job),
  );

const ID = /^(\d{1,9})-(\d{1,9})$/;

/** Samples of one step, in the order of the trainer. Without `step`: of the latest step, or of the cursor's step. */
export function samples(ctx: Ctx, job: JobRow, { step: requested, limit, after }: SamplesQuery) {
  const [, cursorStep, cursorNumber] = ID.exec(after ?? "") ?? [];
  const step = requested ?? (cursorStep === undefined ? latestStep(ctx, job) : Number(cursorStep));
  const ofStep = and(eq(trainingSamples.jobId, job.id), eq(trainingSamples.step, step));
  const number = Number(cursorNumber);
  if (after !== undefined && Number(cursorStep) !== step) throw invalidCursor(after, `a sample of step ${step}`);
  const rows = ctx.db
    .select()
    .from(trainingSamples)
    .where(and(ofStep, after === undefined ? undefined : gt(trainingSamples.number, number)))
    .orderBy(asc(trainingSamples.number))
    .limit(limit + 1)
    .all();
  return { object: "list" as const, data: rows.slice(0, limit).map(presentSample), has_more: rows.length > limit };
}

const latestStep = (ctx: Ctx, job: JobRow): number =>
  ctx.db
    .select({ step: max(trainingSamples.step) })
    .from(trainingSamples)
    .where(eq(trainingSamples.jobId, job.id))
    .get()?.step ?? 0;
