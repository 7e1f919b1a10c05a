/**
 * <data>/jobs/<id>/checkpoints/step-000012   whole directories, made by the trainer
 *                 /log.ndjson               what it said (logs.ts)
 *                 /exports/                 files on their way into the storage
 *                 /work/                    of a custom job: what its command sees (sandbox/files/sandbox_dir.ts)
 */
import { join } from "node:path";
import type { Ctx } from "../../../context.ts";
import { type ForeignDir, jobDirAt, jobsDir as jobsIn } from "../../../sandbox/files/foreign_dir.ts";

export const jobsDir = (ctx: Pick<Ctx, "config">): ForeignDir => jobsIn(ctx.config.data_dir);

export const LOG = "log.ndjson";

export function placesOf(ctx: Pick<Ctx, "config">, id: string) {
  const dir = jobsDir(ctx).below(id);
  return { dir, checkpoints: dir.below("checkpoints"), exports: dir.below("exports"), work: dir.below("work") };
}

/** As a row has it: below the data directory. */
export const checkpointPath = (jobId: string, name: string) => join("jobs", jobId, "checkpoints", name);

/** `path` as a row has it. */
export const checkpointDir = (ctx: Pick<Ctx, "config">, path: string): ForeignDir =>
  jobDirAt(ctx.config.data_dir, path);
