/**
 * <data>/jobs/<id>/checkpoints/step-000012   whole directories, made by the trainer
 *                 /log.ndjson               what it said (logs.ts)
 *                 /exports/                 files on their way into the storage
 *                 /work/                    of a custom job: what its command sees
 */
import { join } from "node:path";
import type { Ctx } from "../../context.ts";

export const jobsDir = (ctx: Pick<Ctx, "config">) => join(ctx.config.data_dir, "jobs");

export function placesOf(ctx: Pick<Ctx, "config">, id: string) {
  const dir = join(jobsDir(ctx), id);
  return {
    dir,
    checkpoints: join(dir, "checkpoints"),
    log: join(dir, "log.ndjson"),
    exports: join(dir, "exports"),
    work: join(dir, "work"),
  };
}

/** As a row has it: below the data directory. */
export const checkpointPath = (jobId: string, name: string) => join("jobs", jobId, "checkpoints", name);
export const absolute = (ctx: Pick<Ctx, "config">, path: string) => join(ctx.config.data_dir, path);
