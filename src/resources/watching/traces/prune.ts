/** Removes traces by age, and those of deleted deployments, jobs and workspaces, in small commits. */
import { and, eq, isNull, lt, type SQL, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { workspaces } from "../../access/workspaces/table.ts";
import { deployments } from "../../serving/deployments/table.ts";
import { trainingJobs } from "../../training/training_jobs/table.ts";
import { flushAll } from "./flush.ts";
import { removeWhere } from "./remove.ts";
import { traces } from "./table.ts";

/** Each deployment has its own retention. Rollouts and traces from outside have `traces.retention_days`. */
export async function prune(ctx: Ctx) {
  await flushAll(ctx);
  const now = ctx.clock.now();
  const remove = (where: SQL | undefined) => gradually(ctx.db, (tx, rows) => removeWhere(tx, where, rows));
  const { id, captureRetentionDays: days } = deployments;
  for (const each of ctx.db.select({ id, days }).from(deployments).all())
    await remove(and(eq(traces.deploymentId, each.id), lt(traces.createdAt, now - each.days * DAY_MS)));
  const before = now - ctx.config.traces.retention_days * DAY_MS;
  await remove(and(isNull(traces.deploymentId), lt(traces.createdAt, before)));
  const deleted = ctx.db.select({ id: workspaces.id }).from(workspaces).where(eq(workspaces.status, "deleted")).all();
  for (const each of deleted) await remove(eq(traces.workspaceId, each.id));
  for (const jobId of withoutRow(ctx, BY_JOB)) await remove(eq(traces.jobId, jobId));
  for (const deploymentId of withoutRow(ctx, BY_DEPLOYMENT)) await remove(eq(traces.deploymentId, deploymentId));
}

type Owner = { column: SQL; index: SQL; table: SQL };
const BY_JOB: Owner = { column: sql`job_id`, index: sql`traces_job`, table: sql`${trainingJobs}` };
const BY_DEPLOYMENT: Owner = { column: sql`deployment_id`, index: sql`traces_deployment`, table: sql`${deployments}` };

/** Owners that have traces and no row. Each step of the query seeks to the next owner in the index. */
function withoutRow(ctx: Ctx, { column, index, table }: Owner): string[] {
  const next = (after: SQL) => sql`SELECT min(${column}) FROM traces INDEXED BY ${index} WHERE ${column} > ${after}`;
  return ctx.db
    .all<{ id: string }>(
      sql`WITH RECURSIVE owners (id) AS (
        SELECT * FROM (${next(sql`''`)}) UNION ALL SELECT (${next(sql`owners.id`)}) FROM owners WHERE id IS NOT NULL
      ) SELECT id FROM owners WHERE id IS NOT NULL AND id NOT IN (SELECT id FROM ${table})`,
    )
    .map(({ id }) => id);
}
