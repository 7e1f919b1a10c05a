/** The loop `training_jobs.sweep`: what a deletion or a kill left to do. All of it is read from rows and directories. */

import { and, eq, inArray } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { isId } from "../../../lib/ids.ts";
import { durable } from "../../../platform/db/db.ts";
import { namesIn, removeTree } from "../../../sandbox/files/trees.ts";
import * as snapshots from "../../datasets/stream/snapshots.ts";
import { workspaces } from "../../workspaces/table.ts";
import { admittingOf } from "../admission/create.ts";
import { machine } from "../machine.ts";
import * as jobs from "../service.ts";
import { isAtWork } from "../state/live.ts";
import { jobsDir } from "../state/paths.ts";
import { trainingJobs } from "../table.ts";

export async function sweep(ctx: Ctx, signal?: AbortSignal) {
  const admitting = admittingOf(ctx.db);
  snapshots.unpinLost(ctx, (id) => {
    const row = jobs.current(ctx, id);
    return admitting.has(id) || (row !== undefined && !jobs.isFinished(row));
  });
  for (const id of orphaned(ctx)) jobs.removeAll(ctx, id);
  await removeFiles(ctx, signal);
}

/** Workspaces that are gone and whose jobs have ended since. */
const orphaned = (ctx: Ctx): string[] =>
  ctx.db
    .selectDistinct({ id: workspaces.id })
    .from(trainingJobs)
    .innerJoin(workspaces, eq(workspaces.id, trainingJobs.workspaceId))
    .where(and(eq(workspaces.status, "deleted"), inArray(trainingJobs.status, [...machine.terminal])))
    .all()
    .map(({ id }) => id);

/** Directories of jobs that are gone. One that cannot be removed does not keep the others. */
async function removeFiles(ctx: Ctx, signal: AbortSignal | undefined) {
  const isOrphan = (id: string) =>
    isId(id, "job") && !jobs.current(ctx, id) && !admittingOf(ctx.db).has(id) && !isAtWork(ctx, id);
  const orphans = (await namesIn(jobsDir(ctx))).filter(isOrphan);
  if (orphans.length === 0) return;
  await durable(ctx.db); // one that was deleted just now may yet come back
  for (const id of orphans) {
    if (signal?.aborted) return;
    if (!isOrphan(id)) continue;
    await removeTree(jobsDir(ctx).below(id)).catch((error) =>
      ctx.log.error("the files of a deleted job could not be removed", { job: id, error }),
    );
  }
}
