/**
 * Checkpoints on the disk, which are the truth: a directory that has its name is whole, whether or not its message
 * arrived. Rows follow them before each run; nothing of this job may be running meanwhile.
 */
import { and, eq, isNull } from "drizzle-orm";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { newId } from "../../../lib/ids.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import type { ForeignDir } from "../../../sandbox/files/foreign_dir.ts";
import { bytesIn, makeDir, namesIn, readText, removeTree, renameTree } from "../../../sandbox/files/trees.ts";
import { bestOf, headlineOf, superfluous } from "../policy.ts";
import { type CheckpointRow, type JobRow, trainingCheckpoints, trainingJobs, trainingMetrics } from "../table.ts";
import { checkpointDir, checkpointPath, placesOf } from "./paths.ts";

const NAME = /^step-(\d{1,12})$/;
const State = z.looseObject({ step: z.int().min(0) });
const STATE_BYTES = 64 * 2 ** 20; // far more than the history in it takes

type Found = { name: string; step: number; sizeBytes: number };

/** Oldest first. What has no such name is the rest of a run that was cut off, and goes. */
async function foundOn(ctx: Ctx, jobId: string): Promise<Found[]> {
  const dir = placesOf(ctx, jobId).checkpoints;
  makeDir(dir);
  const found: Found[] = [];
  for (const name of await namesIn(dir)) {
    const step = Number(NAME.exec(name)?.[1] ?? Number.NaN);
    const state = Number.isNaN(step) ? undefined : await stateIn(ctx, dir.below(name), name);
    if (state?.step === step) found.push({ name, step, sizeBytes: await bytesIn(dir.below(name)) });
    else await removeTree(dir.below(name));
  }
  return found.sort((a, b) => a.step - b.step);
}

async function stateIn(ctx: Ctx, dir: ForeignDir, checkpoint: string): Promise<z.infer<typeof State> | undefined> {
  try {
    const text = await readText(dir, "state.json", STATE_BYTES);
    return text === undefined ? undefined : State.parse(JSON.parse(text));
  } catch (error) {
    ctx.log.warn("a checkpoint cannot be read and is removed", { checkpoint, error });
    return undefined;
  }
}

export const keptOf = (tx: Pick<Tx, "select">, jobId: string): CheckpointRow[] =>
  tx
    .select()
    .from(trainingCheckpoints)
    .where(and(eq(trainingCheckpoints.jobId, jobId), isNull(trainingCheckpoints.deletedAt)))
    .orderBy(trainingCheckpoints.step)
    .all();

/** Rows and directories agree afterwards. The newest to go on from, or undefined. */
export async function align(ctx: Ctx, job: JobRow): Promise<CheckpointRow | undefined> {
  const found = await foundOn(ctx, job.id);
  const dropped = new Set(droppedPaths(ctx, job.id));
  const isDoomed = ({ name }: Found) => dropped.has(checkpointPath(job.id, name));
  const whole = found.filter((each) => !isDoomed(each));
  const known = keptOf(ctx.db, job.id);
  const lost = known.filter((row) => !whole.some(({ step }) => step === row.step));
  const untold = whole.filter(({ step }) => !known.some((row) => row.step === step));
  if (lost.length + untold.length > 0) write(ctx.db, (tx) => record(ctx, tx, job, { lost, untold }));
  for (const { name } of found.filter(isDoomed)) await removeFiles(ctx, checkpointPath(job.id, name));
  return keptOf(ctx.db, job.id).at(-1);
}

function record(ctx: Ctx, tx: Tx, job: JobRow, { lost, untold }: { lost: CheckpointRow[]; untold: Found[] }) {
  const now = ctx.clock.now();
  for (const row of lost) forget(tx, row, now);
  for (const { name, step, sizeBytes } of untold)
    add(tx, job, { step, path: checkpointPath(job.id, name), sizeBytes, metrics: metricsAt(tx, job.id, step) }, now);
  chooseBest(tx, job, now);
}

/** Of checkpoints that were dropped, and whose step was not made anew since. */
const droppedPaths = (ctx: Ctx, jobId: string): string[] => {
  const rows = ctx.db.select().from(trainingCheckpoints).where(eq(trainingCheckpoints.jobId, jobId)).all();
  const kept = new Set(rows.filter(({ deletedAt }) => deletedAt === null).map(({ path }) => path));
  return rows.map(({ path }) => path).filter((path) => !kept.has(path));
};

const metricsAt = (tx: Tx, jobId: string, step: number): Record<string, number> =>
  tx
    .select()
    .from(trainingMetrics)
    .where(and(eq(trainingMetrics.jobId, jobId), eq(trainingMetrics.step, step)))
    .get()?.values ?? {};

type Told = Pick<CheckpointRow, "step" | "path" | "sizeBytes" | "metrics">;

/** One checkpoint more, and with it perhaps another best. A second word on the same step changes nothing. */
export function add(tx: Tx, job: JobRow, told: Told, now: number): CheckpointRow | undefined {
  const row = {
    id: newId("ckpt", now),
    jobId: job.id,
    workspaceId: job.workspaceId,
    value: headlineOf(job.method, told.metrics),
    createdAt: now,
    deletedAt: null,
    ...told,
  };
  const [added] = tx.insert(trainingCheckpoints).values(row).onConflictDoNothing().returning().all();
  if (added) chooseBest(tx, job, now);
  return added;
}

function chooseBest(tx: Tx, job: JobRow, now: number) {
  const bestCheckpointId = bestOf(job.method, keptOf(tx, job.id))?.id ?? null;
  tx.update(trainingJobs).set({ bestCheckpointId, updatedAt: now }).where(eq(trainingJobs.id, job.id)).run();
}

const forget = (tx: Tx, { id }: CheckpointRow, now: number) =>
  void tx.update(trainingCheckpoints).set({ deletedAt: now }).where(eq(trainingCheckpoints.id, id)).run();

/** Too many: they stop counting in this commit; their files go after it. */
export function prune(ctx: Ctx, tx: Tx, job: JobRow): CheckpointRow[] {
  const kept = keptOf(tx, job.id);
  const best = bestOf(job.method, kept)?.id ?? null;
  const gone = superfluous(kept, { last: job.keepLast, best, needed: neededOf(ctx, job.id) });
  for (const row of gone) forget(tx, row, ctx.clock.now());
  return gone;
}

/** Another job begins from it, or a file is being made of it. */
function neededOf(ctx: Ctx, jobId: string): Set<string> {
  const rows = ctx.db.$client
    .query<{ id: string }, [string, string]>(
      `SELECT resume_from AS id FROM training_jobs WHERE completed_at IS NULL AND id <> ? AND resume_from IS NOT NULL
       UNION SELECT checkpoint_id FROM training_exports WHERE job_id = ? AND status = 'preparing'`,
    )
    .all(jobId, jobId);
  return new Set(rows.map(({ id }) => id));
}

/** Idempotent. Under another name first: half of a checkpoint must never look like one. */
export async function removeFiles(ctx: Ctx, path: string): Promise<void> {
  const names = path.split("/");
  const aside = `.gone-${names.at(-1)}-${crypto.randomUUID()}`;
  if (!renameTree(checkpointDir(ctx, path), aside)) return;
  await removeTree(checkpointDir(ctx, [...names.slice(0, -1), aside].join("/")));
}
