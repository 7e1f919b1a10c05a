/** The loop `training_jobs.sweep`: finishes what a deletion or a kill left undone, as rows and directories show it. */
import { and, eq, inArray } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { isId } from "../../../../lib/ids.ts";
import { nextTurn } from "../../../../lib/turns.ts";
import { durable } from "../../../../platform/db/db.ts";
import { namesIn, removeTree } from "../../../../sandbox/files/trees.ts";
import { workspaces } from "../../../access/workspaces/table.ts";
import { sweepResolved } from "../../../data/datasets/stream/resolved.ts";
import * as snapshots from "../../../data/datasets/stream/snapshots.ts";
import { machine } from "../machine.ts";
import { removeAll } from "../state/deletion.ts";
import { jobsDir } from "../state/paths.ts";
import { currentJob, isFinished } from "../state/rows.ts";
import { trainingJobs } from "../table.ts";

export async function sweep(ctx: Ctx, signal?: AbortSignal) {
  await snapshots.unpinLost(ctx, "job", (id) => mayRun(ctx, id));
  for (const id of deletedWorkspaces(ctx)) {
    await nextTurn();
    removeAll(ctx, id);
  }
  await removeOrphanDirs(ctx, signal);
  await sweepResolved(ctx, (id) => mayRun(ctx, id));
}

function mayRun(ctx: Ctx, id: string): boolean {
  const row = currentJob(ctx.db, id);
  return ctx.state.trainingJobs.isAdmitting(id) || (row !== undefined && !isFinished(row));
}

/** Deleted workspaces with jobs that have ended since. */
const deletedWorkspaces = (ctx: Ctx): string[] =>
  ctx.db
    .selectDistinct({ id: workspaces.id })
    .from(trainingJobs)
    .innerJoin(workspaces, eq(workspaces.id, trainingJobs.workspaceId))
    .where(and(eq(workspaces.status, "deleted"), inArray(trainingJobs.status, [...machine.terminal])))
    .all()
    .map(({ id }) => id);

/** A directory that cannot be removed does not keep the others. */
async function removeOrphanDirs(ctx: Ctx, signal: AbortSignal | undefined) {
  const live = ctx.state.trainingJobs;
  const isOrphan = (id: string) =>
    isId(id, "job") && !currentJob(ctx.db, id) && !live.isAdmitting(id) && !live.isActive(id);
  const orphans = (await namesIn(jobsDir(ctx))).filter(isOrphan);
  if (orphans.length === 0) return;
  await durable(ctx.db); // a deletion that is not on the disk yet may be undone by a crash
  for (const id of orphans) {
    if (signal?.aborted) return;
    if (!isOrphan(id)) continue;
    await removeTree(jobsDir(ctx).below(id)).catch((error) =>
      ctx.log.error("cannot remove the files of a deleted job", { job: id, error }),
    );
  }
}
