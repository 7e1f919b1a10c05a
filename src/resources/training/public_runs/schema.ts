import { z } from "zod";
import { PageQuery } from "../../../http/answer/pagination.ts";
import { DateTime, isoOrNull, later } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { JOB_STATUSES } from "../../../lib/training/job_status.ts";
import { JOB_METHODS } from "../training_jobs/table.ts";

/** Everything that anyone may see of a published job. */
export const PublicRun = later(() =>
  z
    .object({
      object: z.literal("public_run"),
      id: z.string(),
      name: z.string(),
      method: z.enum(JOB_METHODS),
      status: z.enum(JOB_STATUSES),
      publisher: z.string().describe("The workspace's name"),
      like_count: z.int(),
      base_model: z.string().nullable().describe("Null for custom jobs"),
      current_step: z.int(),
      total_steps: z.int().describe("0 if unknown"),
      started_at: DateTime.nullable(),
      completed_at: DateTime.nullable(),
      duration_seconds: z.number().describe("From the start to the end, or to the last update; 0 before the start"),
      published_at: DateTime,
      hub_repo_url: z.string().nullable().describe("The repository on the hub, once the result was pushed there"),
      tracker_run_url: z.string().nullable(),
      headline_metric: z
        .object({ key: z.string(), latest: z.number(), first: z.number(), delta: z.number(), step: z.int() })
        .nullable()
        .describe("The metric that shows the progress of the method; `step` is the step of `latest`"),
    })
    .meta({ id: "PublicRun" }),
);
export type PublicRun = z.infer<typeof PublicRun>;

export const PublicRunList = later(() =>
  z
    .object({
      object: z.literal("list"),
      data: z.array(PublicRun),
      has_more: z.boolean(),
      next_cursor: DateTime.nullable().describe("Pass it as `cursor`; null on the last page"),
    })
    .meta({ id: "PublicRunList" }),
);
export type PublicRunList = z.infer<typeof PublicRunList>;

export const PublicRunsQuery = z.object({
  limit: PageQuery.shape.limit,
  cursor: z.string().optional().describe("A time: lists runs that were published before it"),
  before: z.string().optional().describe("Another name of cursor"),
});
export type PublicRunsQuery = z.infer<typeof PublicRunsQuery>;

/** Only these columns are read, so no other can be shown by mistake. */
export type RunRow = {
  id: string;
  outputName: string;
  method: PublicRun["method"];
  status: PublicRun["status"];
  publisher: string;
  likeCount: number;
  baseModel: string | null;
  step: number;
  totalSteps: number;
  startedAt: number | null;
  completedAt: number | null;
  updatedAt: number;
  publishedAt: number | null;
  trackerRunUrl: string | null;
  hubRepoUrl: string | null;
};

export const present = (row: RunRow, headline: PublicRun["headline_metric"]): PublicRun => ({
  object: "public_run",
  id: row.id,
  name: row.outputName,
  method: row.method,
  status: row.status,
  publisher: row.publisher,
  like_count: row.likeCount,
  base_model: row.method === "custom" ? null : row.baseModel,
  current_step: row.step,
  total_steps: row.totalSteps,
  started_at: isoOrNull(row.startedAt),
  completed_at: isoOrNull(row.completedAt),
  duration_seconds: row.startedAt === null ? 0 : Math.max(0, (row.completedAt ?? row.updatedAt) - row.startedAt) / 1000,
  published_at: isoTime(row.publishedAt ?? 0), // the queries read only published jobs
  hub_repo_url: row.hubRepoUrl,
  tracker_run_url: row.trackerRunUrl,
  headline_metric: headline,
});
