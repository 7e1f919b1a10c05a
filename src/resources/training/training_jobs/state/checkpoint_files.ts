/**
 * Checkpoints on the disk. The directories are the truth: one with a checkpoint's name is whole, even if the trainer's
 * message about it was lost. Rows are aligned with the directories after a run that broke off and before each run, while
 * nothing of the job runs. A checkpoint carries the reports of its steps, so that lost ones are written then too.
 */
import { and, desc, eq, isNull, lt, sql } from "drizzle-orm";
import { z } from "zod";
import type { Ctx } from "../../../../context.ts";
import { newId } from "../../../../lib/ids.ts";
import { MIB } from "../../../../lib/units.ts";
import { type Tx, write } from "../../../../platform/db/db.ts";
import type { ForeignDir } from "../../../../sandbox/files/foreign_dir.ts";
import { bytesIn, makeDir, namesIn, readText, removeTree, renameTree } from "../../../../sandbox/files/trees.ts";
import { StepRecord } from "../../../../workers/protocol_trainer.ts";
import { bestOf, rankingOf, rankOf, STEPS_OF_MEAN, superfluous } from "../policy.ts";
import { type CheckpointRow, type JobRow, trainingCheckpoints, trainingJobs, trainingMetrics } from "../table.ts";
import { note } from "./notes.ts";
import { checkpointDir, checkpointPath, pathsOf } from "./paths.ts";
import { metricsAt, recoverStep } from "./steps.ts";

const NAME = /^step-(\d{1,12})$/;
const State = z.looseObject({ step: z.int().min(0) });
const STATE_BYTES = 64 * MIB; // far more than its history takes
const STEPS_FILE = "steps.ndjson";
const STEPS_BYTES = 256 * MIB;

type CheckpointDir = { name: string; step: number; sizeBytes: number };

/** Oldest first. Directories with other names are left from a run that was cut off, and are removed. */
async function readDirs(ctx: Ctx, jobId: string): Promise<CheckpointDir[]> {
  const dir = pathsOf(ctx, jobId).checkpoints;
  makeDir(dir);
  const dirs: CheckpointDir[] = [];
  for (const name of await namesIn(dir)) {
    const step = Number(NAME.exec(name)?.[1] ?? Number.NaN);
    const state = Number.isNaN(step) ? undefined : await readState(ctx, dir.below(name), name);
    if (state?.step === step) dirs.push({ name, step, sizeBytes: await bytesIn(dir.below(name)) });
    else await removeTree(dir.below(name));
  }
  return dirs.sort((a, b) => a.step - b.step);
}

async function readState(ctx: Ctx, dir: ForeignDir, checkpoint: string): Promise<z.infer<typeof State> | undefined> {
  try {
    const text = await readText(dir, "state.json", STATE_BYTES);
    return text === undefined ? undefined : State.parse(JSON.parse(text));
  } catch (error) {
    ctx.log.warn("removing a checkpoint that cannot be read", { checkpoint, error });
    return undefined;
  }
}

/** The reports that a checkpoint carries. None for a checkpoint of an older version. */
async function readSteps(ctx: Ctx, jobId: string, checkpoint: string): Promise<StepRecord[]> {
  try {
    const text = await readText(pathsOf(ctx, jobId).checkpoints.below(checkpoint), STEPS_FILE, STEPS_BYTES);
    const lines = (text ?? "").split("\n").filter((line) => line !== "");
    return lines.map((line) => StepRecord.parse(JSON.parse(line)));
  } catch (error) {
    ctx.log.warn("cannot read the steps of a checkpoint", { job: jobId, checkpoint, error });
    return [];
  }
}

/** Checkpoints whose files exist, oldest first. */
export const keptCheckpoints = (tx: Pick<Tx, "select">, jobId: string): CheckpointRow[] =>
  tx
    .select()
    .from(trainingCheckpoints)
    .where(and(eq(trainingCheckpoints.jobId, jobId), isNull(trainingCheckpoints.deletedAt)))
    .orderBy(trainingCheckpoints.step)
    .all();

/** Makes rows and directories agree. Returns the newest checkpoint. */
export async function alignCheckpoints(ctx: Ctx, job: JobRow): Promise<CheckpointRow | undefined> {
  const dirs = await readDirs(ctx, job.id);
  const dropped = new Set(droppedPaths(ctx, job.id));
  const isDropped = ({ name }: CheckpointDir) => dropped.has(checkpointPath(job.id, name));
  const whole = dirs.filter((each) => !isDropped(each));
  const rows = keptCheckpoints(ctx.db, job.id);
  const lost = rows.filter((row) => !whole.some(({ step }) => step === row.step));
  const unrecorded = whole.filter(({ step }) => !rows.some((row) => row.step === step));
  const steps: StepRecord[] = [];
  for (const { name } of unrecorded) steps.push(...(await readSteps(ctx, job.id, name)));
  if (lost.length + unrecorded.length > 0) write(ctx.db, (tx) => record(ctx, tx, job, { lost, unrecorded, steps }));
  for (const { name } of dirs.filter(isDropped)) await removeFiles(ctx, checkpointPath(job.id, name));
  return keptCheckpoints(ctx.db, job.id).at(-1);
}

type Differences = { lost: CheckpointRow[]; unrecorded: CheckpointDir[]; steps: StepRecord[] };

function record(ctx: Ctx, tx: Tx, job: JobRow, { lost, unrecorded, steps }: Differences) {
  const now = ctx.clock.now();
  for (const row of lost) markDeleted(tx, row, now);
  for (const step of steps) recoverStep(tx, job, step);
  for (const { name, step, sizeBytes } of unrecorded) {
    const metrics = metricsAt(tx, job.id, step) ?? {};
    addCheckpoint(tx, job, { step, path: checkpointPath(job.id, name), sizeBytes, metrics }, now);
  }
  chooseBest(tx, job, now);
}

/** Paths of deleted checkpoints, except those that a later run has written again. */
const droppedPaths = (ctx: Ctx, jobId: string): string[] => {
  const rows = ctx.db.select().from(trainingCheckpoints).where(eq(trainingCheckpoints.jobId, jobId)).all();
  const kept = new Set(rows.filter(({ deletedAt }) => deletedAt === null).map(({ path }) => path));
  return rows.map(({ path }) => path).filter((path) => !kept.has(path));
};

type NewCheckpoint = Pick<CheckpointRow, "step" | "path" | "sizeBytes" | "metrics">;

/** Also adds a line to the history and updates the job's best checkpoint. Undefined if the step already has one. */
export function addCheckpoint(tx: Tx, job: JobRow, checkpoint: NewCheckpoint, now: number): CheckpointRow | undefined {
  const row = {
    id: newId("ckpt", now),
    jobId: job.id,
    workspaceId: job.workspaceId,
    value: rankOf(job, [checkpoint.metrics, ...metricsBefore(tx, job, checkpoint.step)]),
    createdAt: now,
    deletedAt: null,
    ...checkpoint,
  };
  const [added] = tx.insert(trainingCheckpoints).values(row).onConflictDoNothing().returning().all();
  if (!added) return undefined;
  const { step, sizeBytes: size_bytes } = added;
  const data = { checkpoint_id: added.id, step, size_bytes };
  note(tx, job, now, { level: "info", type: "checkpoint", message: `Checkpoint after step ${step}`, data });
  chooseBest(tx, job, now);
  return added;
}

/** The steps of the mean, or the last evaluation before the step. */
function metricsBefore(tx: Tx, job: JobRow, step: number): Record<string, number>[] {
  const ranking = rankingOf(job);
  if (!ranking || typeof job.hyperparameters["metric_for_best_model"] === "string") return []; // each best step saves
  const { jobId, values, step: at } = trainingMetrics;
  const hasMetric = sql`json_extract(${values}, ${`$."${ranking.metric}"`}) IS NOT NULL`;
  const rows = tx
    .select({ values })
    .from(trainingMetrics)
    .where(and(eq(jobId, job.id), lt(at, step), hasMetric))
    .orderBy(desc(at))
    .limit(ranking.steps === null ? 1 : STEPS_OF_MEAN)
    .all();
  return rows.map((row) => row.values);
}

function chooseBest(tx: Tx, job: JobRow, now: number) {
  const bestCheckpointId = bestOf(job, keptCheckpoints(tx, job.id))?.id ?? null;
  tx.update(trainingJobs).set({ bestCheckpointId, updatedAt: now }).where(eq(trainingJobs.id, job.id)).run();
}

const markDeleted = (tx: Tx, { id }: CheckpointRow, now: number) =>
  void tx.update(trainingCheckpoints).set({ deletedAt: now }).where(eq(trainingCheckpoints.id, id)).run();

/** Marks superfluous checkpoints as deleted and returns them. The caller removes their files after the commit. */
export function prune(ctx: Ctx, tx: Tx, job: JobRow): CheckpointRow[] {
  const kept = keptCheckpoints(tx, job.id);
  const best = bestOf(job, kept)?.id ?? null;
  const pruned = superfluous(kept, { last: job.keepLast, best, needed: neededOf(ctx, job.id) });
  for (const row of pruned) markDeleted(tx, row, ctx.clock.now());
  return pruned;
}

/** Bytes of the checkpoints that are removed when the next one comes. */
export function bytesBeforeNext(ctx: Ctx, job: JobRow): number {
  const kept = keptCheckpoints(ctx.db, job.id);
  const best = bestOf(job, kept)?.id ?? null;
  const next = { id: "", step: Number.POSITIVE_INFINITY, value: null, sizeBytes: 0 };
  const removed = superfluous([...kept, next], { last: job.keepLast, best, needed: neededOf(ctx, job.id) });
  return removed.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

/** Checkpoints that another job starts from, or that an export is made of. */
function neededOf(ctx: Ctx, jobId: string): Set<string> {
  const rows = ctx.db.$client
    .query<{ id: string }, [string, string]>(
      `SELECT resume_from AS id FROM training_jobs WHERE completed_at IS NULL AND id <> ? AND resume_from IS NOT NULL
       UNION SELECT checkpoint_id FROM training_exports WHERE job_id = ? AND status = 'preparing'`,
    )
    .all(jobId, jobId);
  return new Set(rows.map(({ id }) => id));
}

/** Idempotent. The directory is renamed first: a half-removed one must never look like a checkpoint. */
export async function removeFiles(ctx: Ctx, path: string): Promise<void> {
  const names = path.split("/");
  const aside = `.gone-${names.at(-1)}-${crypto.randomUUID()}`;
  if (!renameTree(checkpointDir(ctx, path), aside)) return;
  await removeTree(checkpointDir(ctx, [...names.slice(0, -1), aside].join("/")));
}
