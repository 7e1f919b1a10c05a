/** Past costs of a workspace: jobs that run now, and jobs that ended in the period. Each job counts in full. */
import { and, eq, gte, isNotNull, isNull, or } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { usdOf } from "../../lib/money.ts";
import { DAY_MS } from "../../lib/units.ts";
import { runTime } from "../billing/run_time.ts";
import { costMicrosOf } from "../training_jobs/schema.ts";
import { trainingJobs } from "../training_jobs/table.ts";
import { sumOf, sumsBy, type Use } from "./sums.ts";

function usesOf(ctx: Ctx, workspaceId: string, days: number): Use[] {
  const now = ctx.clock.now();
  const { completedAt, runSince, runMs } = trainingJobs;
  const recent = or(isNull(completedAt), gte(completedAt, now - days * DAY_MS));
  const rows = ctx.db
    .select()
    .from(trainingJobs)
    .where(and(eq(trainingJobs.workspaceId, workspaceId), recent, or(isNotNull(runSince), gte(runMs, 1))))
    .all();
  return rows.map((row) => ({
    provider: row.provider,
    gpuType: row.gpuType,
    gpuCount: row.gpuCount,
    ms: row.runMs + (row.runSince === null ? 0 : Math.max(0, runTime(ctx, row.id) - row.runSince)),
    costMicros: costMicrosOf(row, runTime(ctx, row.id)),
  }));
}

export function summary(ctx: Ctx, workspaceId: string, days: number) {
  const { jobs, costMicros, gpuHours } = sumOf(usesOf(ctx, workspaceId, days));
  return {
    object: "cost_summary",
    period_days: days,
    job_count: jobs,
    total_cost_usd: usdOf(costMicros),
    total_gpu_hours: gpuHours,
    avg_cost_per_job_usd: jobs === 0 ? 0 : usdOf(Math.round(costMicros / jobs)),
  };
}

export const byProvider = (ctx: Ctx, workspaceId: string, days: number) =>
  sumsBy(usesOf(ctx, workspaceId, days), "provider").map(([provider, { jobs, costMicros }]) => ({
    provider,
    job_count: jobs,
    cost_usd: usdOf(costMicros),
  }));

export const byGpu = (ctx: Ctx, workspaceId: string, days: number) =>
  sumsBy(usesOf(ctx, workspaceId, days), "gpuType").map(([gpuType, { jobs, costMicros, gpuHours }]) => ({
    gpu_type: gpuType,
    job_count: jobs,
    cost_usd: usdOf(costMicros),
    gpu_hours: gpuHours,
  }));
