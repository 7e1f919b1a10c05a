/** Removes traces by age, and those of deleted jobs and workspaces, in small commits. */
import { and, eq, isNull, lt, type SQL, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { DAY_MS } from "../../lib/units.ts";
import { gradually } from "../../platform/db/gradually.ts";
import { deployments } from "../deployments/table.ts";
import { trainingJobs } from "../training_jobs/table.ts";
import { workspaces } from "../workspaces/table.ts";
import { flush } from "./flush.ts";
import { removeWhere } from "./remove.ts";
import { traces } from "./table.ts";

/** Each deployment has its own retention. Rollouts and traces from outside have `traces.retention_days`. */
export async function prune(ctx: Ctx) {
  flush(ctx);
  const now = ctx.clock.now();
  const remove = (where: SQL | undefined) => gradually(ctx.db, (tx, rows) => removeWhere(tx, where, rows));
  const { id, captureRetentionDays: days } = deployments;
  for (const each of ctx.db.select({ id, days }).from(deployments).all())
    await remove(and(eq(traces.deploymentId, each.id), lt(traces.createdAt, now - each.days * DAY_MS)));
  const before = now - ctx.config.traces.retention_days * DAY_MS;
  await remove(and(isNull(traces.deploymentId), lt(traces.createdAt, before)));
  const deleted = ctx.db.select({ id: workspaces.id }).from(workspaces).where(eq(workspaces.status, "deleted")).all();
  for (const each of deleted) await remove(eq(traces.workspaceId, each.id));
  for (const jobId of deletedJobs(ctx)) await remove(eq(traces.jobId, jobId));
}

/** Jobs that have rollouts and no row. Each step of the query seeks to the next job in the index. */
function deletedJobs(ctx: Ctx): string[] {
  const next = (after: SQL) => sql`SELECT min(job_id) FROM traces INDEXED BY traces_job WHERE job_id > ${after}`;
  return ctx.db
    .all<{ id: string }>(
      sql`WITH RECURSIVE jobs (id) AS (
        SELECT * FROM (${next(sql`''`)}) UNION ALL SELECT (${next(sql`jobs.id`)}) FROM jobs WHERE id IS NOT NULL
      ) SELECT id FROM jobs WHERE id IS NOT NULL AND id NOT IN (SELECT id FROM ${trainingJobs})`,
    )
    .map(({ id }) => id);
}
