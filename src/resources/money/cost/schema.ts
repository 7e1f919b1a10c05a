import { z } from "zod";
import { usdOf } from "../../../lib/money.ts";
import { later } from "../../../lib/schema.ts";
import { DEFAULTS, type Estimate, type Month, type Workload } from "./estimate.ts";

/** A number in a query. An empty text is not a number. */
const amount = (most: number, least = 0) =>
  z
    .string()
    .regex(/^[+-]?\d+(\.\d+)?$/, "must be a number such as 90 or 1.5")
    .transform(Number)
    .pipe(z.number().min(least).max(most));
const whole = (most: number, least = 1) => amount(most, least).pipe(z.int());

const MINUTES = 527_040; // 366 days
const Name = z.string().min(1).max(100);
const Minutes = later(() => amount(MINUTES).default(DEFAULTS.minutes));
const GpuType = later(() => Name.default(DEFAULTS.gpuType));
const GpuCount = later(() => whole(1024).default(DEFAULTS.gpuCount));
const Provider = later(() =>
  Name.optional().describe(
    "A provider or one of its plans, such as aws:spot. Default: default_provider of the price file",
  ),
);

export const PeriodQuery = later(() =>
  z.object({
    days: whole(3650)
      .default(DEFAULTS.days)
      .describe("How many days back, to the full hour. Counts jobs that run now or ended since then, and deployments"),
  }),
);
export const CompareQuery = later(() =>
  z.object({ gpu_type: GpuType, gpu_count: GpuCount, duration_minutes: Minutes }),
);
export const EstimateQuery = later(() =>
  CompareQuery.unwrap().extend({
    provider: Provider,
    markup: amount(100).default(DEFAULTS.markup).describe("Factor for the sum of all parts"),
  }),
);
export const MonthQuery = later(() =>
  z.object({
    jobs_per_day: amount(100_000).default(DEFAULTS.jobsPerDay),
    avg_duration_minutes: Minutes,
    gpu_type: GpuType,
    gpu_count: GpuCount,
    provider: Provider,
  }),
);
export type CompareQuery = z.infer<typeof CompareQuery>;
export type EstimateQuery = z.infer<typeof EstimateQuery>;
export type MonthQuery = z.infer<typeof MonthQuery>;

/** Fields that the three routes of past costs share. */
const others = () => ({
  deployment_cost_usd: z.number().describe("Cost of deployments in the period. The other costs are those of jobs"),
  deployment_gpu_hours: z.number(),
  energy_wh: z.number().describe("Measured energy of the jobs, in watt-hours; 0 if nothing was measured"),
  shadow_cost_usd: z.number().describe("Hours of jobs and deployments by the price file, at its present rates"),
});

export const CostSummary = later(() =>
  z
    .object({
      object: z.literal("cost_summary"),
      period_days: z.int(),
      job_count: z.int(),
      total_cost_usd: z.number().describe("Cost of jobs, also of deleted ones"),
      total_gpu_hours: z.number(),
      avg_cost_per_job_usd: z.number().describe("0 if there are no jobs"),
      ...others(),
    })
    .meta({ id: "CostSummary" }),
);
export const CostByProvider = later(() =>
  z
    .array(
      z.object({
        object: z.literal("cost_by_provider"),
        provider: z.string(),
        job_count: z.int(),
        cost_usd: z.number(),
        ...others(),
      }),
    )
    .meta({ id: "CostByProvider" }),
);
export const CostByGpu = later(() =>
  z
    .array(
      z.object({
        object: z.literal("cost_by_gpu"),
        gpu_type: z.string(),
        job_count: z.int(),
        cost_usd: z.number(),
        gpu_hours: z.number(),
        ...others(),
      }),
    )
    .meta({ id: "CostByGpu" }),
);
export const CostByDay = later(() =>
  z
    .array(
      z.object({
        object: z.literal("cost_by_day"),
        day: z.iso.date().describe("A day of UTC. Days without use are left out"),
        job_count: z.int().describe("Jobs that ended on this day; jobs that run now count for today"),
        cost_usd: z.number(),
        gpu_hours: z.number(),
        ...others(),
      }),
    )
    .meta({ id: "CostByDay" }),
);
const useFigures = () => ({
  requests: z.int(),
  prompt_tokens: z.int(),
  cached_tokens: z.int().describe("Tokens of prompts that were in the cache"),
  completion_tokens: z.int(),
  jobs: z.int().describe("Jobs that ended, and for today those that have not"),
  device_hours: z.number(),
  cost_usd: z.number(),
  tokens_usd: z
    .number()
    .describe(
      "The tokens at the prices of [tokens] in the price file, cached ones at their own. Nothing is charged by it",
    ),
});

export const UseQuery = later(() =>
  PeriodQuery.unwrap().extend({
    days: whole(366).default(DEFAULTS.days).describe("How many days of UTC, with today"),
    by: z.enum(["kind", "key", "model"]).default("kind").describe("kind: training and serving"),
    key_id: Name.optional().describe("Only use of this key"),
    model: z.string().min(1).max(300).optional().describe("Only use of this model: a training job id, or a name"),
    kind: z.enum(["training", "serving"]).optional(),
  }),
);
export type UseQuery = z.infer<typeof UseQuery>;

export const CostByUse = later(() =>
  z
    .object({
      object: z.literal("cost_by_use"),
      period_days: z.int(),
      by: z.enum(["kind", "key", "model"]),
      first_day: z.iso.date(),
      last_day: z.iso.date().describe("Today, in UTC"),
      total: z.object(useFigures()),
      data: z
        .array(
          z.object({
            group: z.string().nullable().describe("Kind, id of the key, or model; null: no key, no model, or others"),
            is_others: z.boolean().describe("The sum of all groups behind the first 50"),
            ...useFigures(),
            days: z.array(z.object({ day: z.iso.date(), ...useFigures() })).describe("Days with use, oldest first"),
          }),
        )
        .describe("The most expensive first, then the most used"),
    })
    .meta({ id: "CostByUse" }),
);
export type CostByUse = z.infer<typeof CostByUse>;
export type CostByDay = z.infer<typeof CostByDay>;
export type CostSummary = z.infer<typeof CostSummary>;
export const CostEstimate = later(() =>
  z
    .object({
      object: z.literal("cost_estimate"),
      cost_usd: z.number().describe("The sum of the three parts, times the markup"),
      gpu_cost_usd: z.number().describe("On this machine: the charge for such a run, and what creation checks"),
      storage_cost_usd: z.number(),
      overhead_cost_usd: z.number(),
      duration_seconds: z.number(),
      gpu_type: z.string(),
      gpu_count: z.int(),
      provider: z.string(),
      markup_multiplier: z.number(),
      shadow_cost_usd: z
        .number()
        .describe("cost_usd by the price file. Differs from cost_usd only if this machine is free or has a fixed rate"),
    })
    .meta({ id: "CostEstimate" }),
);
export const MonthlyProjection = later(() =>
  z
    .object({
      object: z.literal("cost_projection"),
      total_jobs: z.int().describe("Jobs in 30 days"),
      avg_cost_per_job_usd: z.number(),
      total_monthly_usd: z.number(),
      keep_warm_monthly_usd: z.number().describe("Cost of keeping the same GPUs for all 30 days instead"),
    })
    .meta({ id: "MonthlyProjection" }),
);
export const CostComparison = later(() =>
  z
    .record(z.string(), z.number())
    .describe("Provider or provider:plan → cost in dollars. Providers without such a GPU are left out")
    .meta({ id: "CostComparison" }),
);
export const CostRates = later(() =>
  z
    .record(z.string(), z.record(z.string(), z.number()))
    .describe("Provider → GPU type → dollars for an hour of one GPU. Types that it does not offer are left out")
    .meta({ id: "CostRates" }),
);

export const presentEstimate = (
  workload: Workload,
  cost: Estimate,
  shadowMicros: number,
): z.infer<typeof CostEstimate> => ({
  object: "cost_estimate",
  cost_usd: usdOf(cost.costMicros),
  gpu_cost_usd: usdOf(cost.gpuMicros),
  storage_cost_usd: usdOf(cost.storageMicros),
  overhead_cost_usd: usdOf(cost.overheadMicros),
  duration_seconds: Number((workload.minutes * 60).toFixed(3)),
  gpu_type: workload.gpuType,
  gpu_count: workload.gpuCount,
  provider: workload.provider,
  markup_multiplier: workload.markup,
  shadow_cost_usd: usdOf(shadowMicros),
});

export const presentMonth = (month: Month): z.infer<typeof MonthlyProjection> => ({
  object: "cost_projection",
  total_jobs: month.totalJobs,
  avg_cost_per_job_usd: usdOf(month.jobMicros),
  total_monthly_usd: usdOf(month.totalMicros),
  keep_warm_monthly_usd: usdOf(month.keepWarmMicros),
});
