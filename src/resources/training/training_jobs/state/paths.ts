/**
 * <data>/jobs/<id>/checkpoints/step-000012   whole directories, written by the trainer
 *                 /log.ndjson               the log (logs/file.ts)
 *                 /exports/                 files on their way into the storage
 *                 /work/                    the directory of a custom job's command (sandbox/files/sandbox_dir.ts)
 */
import { join } from "node:path";
import type { Ctx } from "../../../../context.ts";
import { type ForeignDir, jobDirAt, jobsDir as jobsIn } from "../../../../sandbox/files/foreign_dir.ts";

export const jobsDir = (ctx: Pick<Ctx, "config">): ForeignDir => jobsIn(ctx.config.data_dir);

export const LOG = "log.ndjson";

export function pathsOf(ctx: Pick<Ctx, "config">, id: string) {
  const dir = jobsDir(ctx).below(id);
  return { dir, checkpoints: dir.below("checkpoints"), exports: dir.below("exports"), work: dir.below("work") };
}

/** The path in a checkpoint's row, relative to the data directory. */
export const checkpointPath = (jobId: string, name: string) => join("jobs", jobId, "checkpoints", name);

/** `path`: from a checkpoint's row. */
export const checkpointDir = (ctx: Pick<Ctx, "config">, path: string): ForeignDir =>
  jobDirAt(ctx.config.data_dir, path);
