/**
 * Past costs of a workspace: the sums of ended jobs and of charged service, and the use that has not ended yet. A job
 * counts in full, in the hour of its end. No query depends on the number of ended jobs.
 */
import { and, type Column, eq, gte, isNull, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { usdOf } from "../../../lib/money.ts";
import { isoTime } from "../../../lib/time.ts";
import { DAY_MS, HOUR_MS } from "../../../lib/units.ts";
import { costMicrosOf } from "../../training/training_jobs/schema.ts";
import { type JobRow, trainingJobs } from "../../training/training_jobs/table.ts";
import { runTime } from "../billing/run_time.ts";
import { servingDeployments } from "../billing/usage.ts";
import { wattHours } from "../energy/watts.ts";
import { listedRates } from "./service.ts";
import { type Sum, sumOf, sumsBy, type Use } from "./sums.ts";
import { type UsageRow, usageHours } from "./table.ts";

const usesOf = (ctx: Ctx, workspaceId: string, days: number): Use[] => [
  ...pastUses(ctx, workspaceId, ctx.clock.now() - days * DAY_MS),
  ...openJobUses(ctx, workspaceId),
  ...openService(ctx, workspaceId),
];

/** Service since the last charge. */
const openService = (ctx: Ctx, workspaceId: string): Use[] =>
  servingDeployments(ctx, workspaceId).map(({ provider, gpuType, deviceMs, micros }) => ({
    kind: "deployment" as const,
    provider,
    gpuType,
    jobs: 0,
    deviceMs,
    costMicros: micros,
    energyJoules: 0,
  }));

/** GPU hours of jobs and deployments. A job counts in full in the hour of its end, and a job that runs counts now. */
export function gpuHoursSince(ctx: Ctx, workspaceId: string, sinceMs: number): number {
  const uses = [
    ...pastUses(ctx, workspaceId, sinceMs),
    ...openJobUses(ctx, workspaceId),
    ...openService(ctx, workspaceId),
  ];
  return uses.reduce((sum, { deviceMs }) => sum + deviceMs, 0) / HOUR_MS;
}

function pastUses(ctx: Ctx, workspaceId: string, sinceMs: number): Use[] {
  const since = Math.floor(sinceMs / HOUR_MS);
  const { kind, provider, gpuType, jobs, deviceMs, costMicros, energyJoules } = usageHours;
  const sum = (column: Column) => sql<number>`sum(${column})`;
  return ctx.db
    .select({
      kind,
      provider,
      gpuType,
      jobs: sum(jobs),
      deviceMs: sum(deviceMs),
      costMicros: sum(costMicros),
      energyJoules: sum(energyJoules),
    })
    .from(usageHours)
    .where(and(eq(usageHours.workspaceId, workspaceId), gte(usageHours.hour, since)))
    .groupBy(kind, provider, gpuType)
    .all();
}

/** Jobs that run, and jobs that have run and wait to go on. The conditions are those of two indexes. */
export function openJobs(ctx: Ctx, workspaceId: string): { job: JobRow; use: Use }[] {
  const { completedAt, runSince, runMs } = trainingJobs;
  const rows = [gte(runSince, 0), and(isNull(completedAt), isNull(runSince), sql`${runMs} > 0`)].flatMap((open) =>
    ctx.db
      .select()
      .from(trainingJobs)
      .where(and(eq(trainingJobs.workspaceId, workspaceId), open))
      .all(),
  );
  return rows.map((job) => ({ job, use: openUse(job, runTime(ctx, job.id)) }));
}

const openJobUses = (ctx: Ctx, workspaceId: string): Use[] => openJobs(ctx, workspaceId).map(({ use }) => use);

const openUse = (job: JobRow, now: number): Use => ({
  kind: "job",
  provider: job.provider,
  gpuType: job.gpuType,
  jobs: 1,
  deviceMs: (job.runMs + (job.runSince === null ? 0 : Math.max(0, now - job.runSince))) * job.gpuCount,
  costMicros: costMicrosOf(job, now),
  energyJoules: job.energyJoules ?? 0,
});

/** Fields of every answer beside those for jobs. */
const others = (sum: Sum) => ({
  deployment_cost_usd: usdOf(sum.deploymentMicros),
  deployment_gpu_hours: sum.deploymentGpuHours,
  energy_wh: wattHours(sum.energyJoules) ?? 0,
  shadow_cost_usd: usdOf(sum.shadowMicros),
});

export function summary(ctx: Ctx, workspaceId: string, days: number) {
  const sum = sumOf(usesOf(ctx, workspaceId, days), listedRates(ctx));
  const { jobs, jobMicros, jobGpuHours } = sum;
  return {
    object: "cost_summary",
    period_days: days,
    job_count: jobs,
    total_cost_usd: usdOf(jobMicros),
    total_gpu_hours: jobGpuHours,
    avg_cost_per_job_usd: jobs === 0 ? 0 : usdOf(Math.round(jobMicros / jobs)),
    ...others(sum),
  };
}

/** Every day of UTC with use, oldest first. Use that goes on counts for today. */
export function byDay(ctx: Ctx, workspaceId: string, days: number) {
  const now = ctx.clock.now();
  const first = Math.floor(now / DAY_MS) - days + 1;
  const rows = ctx.db
    .select()
    .from(usageHours)
    .where(and(eq(usageHours.workspaceId, workspaceId), gte(usageHours.hour, first * DAY_HOURS)))
    .all();
  const byNumber = Map.groupBy<number, UsageRow>(rows, ({ hour }) => Math.floor(hour / DAY_HOURS)) as Map<
    number,
    Use[]
  >;
  const open = [...openJobUses(ctx, workspaceId), ...openService(ctx, workspaceId)];
  const today = Math.floor(now / DAY_MS);
  if (open.length > 0) byNumber.set(today, [...(byNumber.get(today) ?? []), ...open]);
  const listed = listedRates(ctx);
  return [...byNumber]
    .sort(([a], [b]) => a - b)
    .map(([day, uses]) => {
      const sum = sumOf(uses, listed);
      return {
        object: "cost_by_day",
        day: isoTime(day * DAY_MS).slice(0, 10),
        job_count: sum.jobs,
        cost_usd: usdOf(sum.jobMicros),
        gpu_hours: sum.jobGpuHours,
        ...others(sum),
      };
    });
}

const DAY_HOURS = DAY_MS / HOUR_MS;

export const byProvider = (ctx: Ctx, workspaceId: string, days: number) =>
  sumsBy(usesOf(ctx, workspaceId, days), "provider", listedRates(ctx)).map(([provider, sum]) => ({
    object: "cost_by_provider",
    provider,
    job_count: sum.jobs,
    cost_usd: usdOf(sum.jobMicros),
    ...others(sum),
  }));

export const byGpu = (ctx: Ctx, workspaceId: string, days: number) =>
  sumsBy(usesOf(ctx, workspaceId, days), "gpuType", listedRates(ctx)).map(([gpuType, sum]) => ({
    object: "cost_by_gpu",
    gpu_type: gpuType,
    job_count: sum.jobs,
    cost_usd: usdOf(sum.jobMicros),
    gpu_hours: sum.jobGpuHours,
    ...others(sum),
  }));
