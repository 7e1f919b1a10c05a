/**
 * The loop `training_jobs.prune`: removes the details of jobs that ended long ago. These are samples, events, the log,
 * rows of deleted checkpoints, and metrics beyond a thinned series. The job's row with its cost, settings and last
 * metrics stays, and so do its checkpoints, exports and models. Published jobs keep everything.
 */
import { and, asc, eq, inArray, isNotNull, isNull, lt, notInArray, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { DAY_MS } from "../../../../lib/units.ts";
import { type Tx, write } from "../../../../platform/db/db.ts";
import { gradually } from "../../../../platform/db/gradually.ts";
import { removeTree } from "../../../../sandbox/files/trees.ts";
import * as looseKeys from "../../../data/loose_keys/service.ts";
import { note } from "../state/notes.ts";
import { LOG, pathsOf } from "../state/paths.ts";
import { currentJob } from "../state/rows.ts";
import {
  type JobRow,
  trainingCheckpoints,
  trainingEvents,
  trainingJobs,
  trainingMetrics,
  trainingSamples,
  trainingSystem,
} from "../table.ts";
import { read as readMetrics } from "../views/metrics.ts";

const PAGE = 100;
const KEPT_POINTS = 1_000; // steps of a job, about

export async function prune(ctx: Ctx, signal?: AbortSignal): Promise<void> {
  const days = ctx.config.training.detail_retention_days;
  if (days === 0) return;
  const before = ctx.clock.now() - days * DAY_MS;
  for (let page = ended(ctx, before); page.length > 0; page = ended(ctx, before, page.at(-1)))
    for (const job of page) {
      if (signal?.aborted) return;
      await removeDetails(ctx, job).catch((error) =>
        ctx.log.error("cannot remove the details of an old job", { job: job.id, error }),
      );
    }
}

/** Jobs with details that ended after `last`, oldest end first. The index training_jobs_with_details has the condition. */
function ended({ db }: Pick<Ctx, "db">, before: number, last?: JobRow): JobRow[] {
  const { id, completedAt, detailsRemovedAt, publishedAt, logBytes } = trainingJobs;
  return db
    .select()
    .from(trainingJobs)
    .where(
      and(
        sql`${completedAt} IS NOT NULL AND ${detailsRemovedAt} IS NULL`,
        lt(completedAt, before),
        last && sql`(${completedAt}, ${id}) > (${last.completedAt}, ${last.id})`,
        isNull(publishedAt),
        isNotNull(logBytes), // the log is on its way into the storage otherwise
      ),
    )
    .orderBy(asc(completedAt), asc(id))
    .limit(PAGE)
    .all();
}

/** In small commits. After a kill the next round continues: only the last commit marks the job as done. */
async function removeDetails(ctx: Ctx, job: JobRow) {
  const { db } = ctx;
  await gradually(db, (tx, rows) => removeSamples(tx, job.id, rows));
  await thinMetrics(ctx, job);
  write(db, (tx) => tx.delete(trainingSystem).where(eq(trainingSystem.jobId, job.id)).run()); // a few hundred
  await gradually(db, (tx, rows) => {
    const { id, jobId } = trainingEvents;
    const some = tx.select({ id }).from(trainingEvents).where(eq(jobId, job.id)).limit(rows);
    return tx.delete(trainingEvents).where(inArray(id, some)).returning({ id }).all().length;
  });
  await gradually(db, (tx, rows) => {
    const { id, jobId, deletedAt } = trainingCheckpoints;
    const ofDeleted = and(eq(jobId, job.id), isNotNull(deletedAt));
    const some = tx.select({ id }).from(trainingCheckpoints).where(ofDeleted).limit(rows);
    return tx.delete(trainingCheckpoints).where(inArray(id, some)).returning({ id }).all().length;
  });
  await removeTree(pathsOf(ctx, job.id).dir.below(LOG));
  write(db, (tx) => markRemoved(ctx, tx, job.id));
  ctx.wake("volumes.sweep"); // it removes the stored log
}

/** Whole steps: their first key columns are an index, and a step has a few samples. */
function removeSamples(tx: Tx, jobId: string, rows: number): number {
  const { step } = trainingSamples;
  const isOfJob = eq(trainingSamples.jobId, jobId);
  const some = tx.select({ step }).from(trainingSamples).where(isOfJob).orderBy(asc(step)).limit(rows).all();
  const last = some.at(-1)?.step;
  if (last === undefined) return 0;
  tx.delete(trainingSamples)
    .where(and(isOfJob, sql`${step} <= ${last}`))
    .run();
  return some.length;
}

async function thinMetrics(ctx: Ctx, job: JobRow) {
  const { sampled, data } = await readMetrics(ctx, job, { max_points: KEPT_POINTS });
  if (!sampled) return;
  const kept = (await Array.fromAsync(data)).map((point) => point.step);
  const { jobId, step } = trainingMetrics;
  await gradually(ctx.db, (tx, rows) => {
    const others = and(eq(jobId, job.id), notInArray(step, kept));
    const steps = tx.select({ step }).from(trainingMetrics).where(others).limit(rows);
    return tx
      .delete(trainingMetrics)
      .where(and(eq(jobId, job.id), inArray(step, steps)))
      .returning({ step })
      .all().length;
  });
}

function markRemoved(ctx: Ctx, tx: Tx, id: string) {
  const job = currentJob(tx, id);
  if (!job) return; // deleted meanwhile
  const now = ctx.clock.now();
  if (job.logKey !== null) looseKeys.drop(tx, job.logKey, now);
  const set = { logKey: null, logBytes: 0, logStdoutBytes: 0, detailsRemovedAt: now };
  tx.update(trainingJobs).set(set).where(eq(trainingJobs.id, id)).run();
  const days = ctx.config.training.detail_retention_days;
  note(tx, job, now, {
    level: "info",
    type: "details_removed",
    message: `Samples, events and the log were removed: the job ended more than ${days} days ago`,
  });
}
