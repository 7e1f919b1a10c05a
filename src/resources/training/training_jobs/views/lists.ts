/** Lists of a job's events, checkpoints and samples. */
import { and, asc, desc, eq, getTableColumns, gt, isNull, lt, max, or, type SQL, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { invalidCursor } from "../../../../http/answer/cursor.ts";
import { type PageQuery, page } from "../../../../http/answer/pagination.ts";
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
export function samples(ctx: Ctx, job: JobRow, query: SamplesQuery) {
  if (query.earlier_than !== undefined) return earlierSamples(ctx, job, { ...query, of: query.earlier_than });
  const { step: requested, limit, after } = query;
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

/** Prompts that end alike and have the same length are told apart by reading them. This many are read. */
const MOST_READ = 1_000;

/** Samples of steps before that of the sample `of`, to the same prompt. Without such a sample there are none. */
function earlierSamples(ctx: Ctx, job: JobRow, { of, step, limit, after }: SamplesQuery & { of: string }) {
  const table = trainingSamples;
  const ofJob = eq(table.jobId, job.id);
  const [ofStep, ofNumber] = placeOf(of);
  const text = ctx.db
    .select({ prompt: sql<string>`${table.prompt}` })
    .from(table)
    .where(and(ofJob, eq(table.step, ofStep), eq(table.number, ofNumber)))
    .get()?.prompt;
  if (text === undefined) return { object: "list" as const, data: [], has_more: false };
  const isAlike = sql`length(${table.prompt}) = length(${text}) and substr(${table.prompt}, -64) = substr(${text}, -64)`;
  const within = and(ofJob, isAlike, lt(table.step, ofStep), step === undefined ? undefined : eq(table.step, step));
  const near = ctx.db
    .select({ step: table.step, number: table.number }) // of the index alone, or SQLite would walk the steps instead
    .from(table)
    .where(and(within, behind(after)))
    .orderBy(desc(table.step), desc(table.number))
    .limit(MOST_READ)
    .as("near");
  const rows = ctx.db
    .select(getTableColumns(table))
    .from(near)
    .innerJoin(table, and(ofJob, eq(table.step, near.step), eq(table.number, near.number)))
    .where(sql`${table.prompt} = ${text}`)
    .orderBy(desc(near.step), desc(near.number))
    .limit(limit + 1)
    .all();
  return { object: "list" as const, data: rows.slice(0, limit).map(presentSample), has_more: rows.length > limit };
}

/** The samples after a cursor, newest first. */
function behind(after: string | undefined): SQL | undefined {
  if (after === undefined) return undefined;
  if (!ID.test(after)) throw invalidCursor(after, "a sample of this job");
  const [step, number] = placeOf(after);
  return or(lt(trainingSamples.step, step), and(eq(trainingSamples.step, step), lt(trainingSamples.number, number)));
}

/** `12-3` is number 3 of step 12. */
const placeOf = (id: string): [step: number, number: number] => {
  const [, step, number] = ID.exec(id) ?? [];
  return [Number(step), Number(number)];
};

const latestStep = (ctx: Ctx, job: JobRow): number =>
  ctx.db
    .select({ step: max(trainingSamples.step) })
    .from(trainingSamples)
    .where(eq(trainingSamples.jobId, job.id))
    .get()?.step ?? 0;
