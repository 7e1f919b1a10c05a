/** Shapes of a job's events, metrics, samples and checkpoints. */

import { z } from "zod";
import { PageQuery } from "../../../../http/answer/pagination.ts";
import { DateTime, later, numberText } from "../../../../lib/schema.ts";
import { isoTime } from "../../../../lib/time.ts";
import { JOB_STATUSES } from "../../../../lib/training/job_status.ts";
import { rankedBy } from "../policy.ts";
import {
  type CheckpointRow,
  EVENT_LEVELS,
  JOB_METHODS,
  type JobEventRow,
  type JobRow,
  type SampleRow,
} from "../table.ts";

const MOST_WHOLE = 100;
const MOST_CHOSEN = 1_000;

export const ListQuery = PageQuery.extend({
  status: z.enum(JOB_STATUSES).optional(),
  method: z.enum(JOB_METHODS).optional(),
  dataset_id: z.string().optional().describe("Only jobs that train on this dataset"),
  tag: z.string().max(50).optional().describe("Only jobs with this tag"),
  group: z.string().max(100).optional().describe("Only jobs of this group"),
  limit: numberText(z.int().min(1).max(MOST_CHOSEN))
    .default(20)
    .describe(`How many items at most. More than ${MOST_WHOLE} only with fields`),
  fields: z
    .string()
    .max(5_000)
    .optional()
    .describe(
      "Names, separated by commas: fields of a job, or one entry of a field, such as hyperparameters.learning_rate or latest_metrics.reward. Each item then has only its id, its object and these",
    ),
}).refine(({ limit, fields }) => fields !== undefined || limit <= MOST_WHOLE, {
  path: ["limit"],
  message: `must be at most ${MOST_WHOLE} without fields`,
});

/** A job of a list with chosen fields. */
export const ChosenJob = later(() =>
  z.looseObject({ id: z.string(), object: z.literal("training_job") }).meta({ id: "ChosenTrainingJob" }),
);

export const JobSystem = later(() =>
  z
    .object({
      object: z.literal("training_job.system"),
      job_id: z.string(),
      data: z.array(
        z.object({
          time: DateTime,
          values: z
            .record(z.string(), z.number())
            .describe(
              "Of the GPUs of the job: gpu_percent, gpu_memory_bytes, gpu_power_watts, gpu_temperature_celsius. Of the machine: cpu_percent, memory_bytes, disk_bytes. What cannot be measured is missing",
            ),
        }),
      ),
    })
    .meta({ id: "TrainingJobSystem" }),
);
export type JobSystem = z.infer<typeof JobSystem>;

export const JobEvent = later(() =>
  z
    .object({
      object: z.literal("training_job.event"),
      id: z.string(),
      job_id: z.string(),
      created_at: DateTime,
      level: z.enum(EVENT_LEVELS),
      type: z.string(),
      message: z.string(),
      data: z.record(z.string(), z.unknown()),
    })
    .meta({ id: "TrainingJobEvent" }),
);

export const presentEvent = (row: JobEventRow): z.infer<typeof JobEvent> => ({
  object: "training_job.event",
  id: row.id,
  job_id: row.jobId,
  created_at: isoTime(row.createdAt),
  level: row.level,
  type: row.type,
  message: row.message,
  data: row.data,
});

const step = numberText(z.int().min(0).max(1e9));
export const MetricsQuery = z.object({
  keys: z.string().max(10_000).optional().describe("Names, separated by commas. Default: all"),
  from_step: step.optional(),
  to_step: step.optional().describe("Inclusive"),
  max_points: numberText(z.int().min(1).max(100_000))
    .default(1000)
    .describe(
      "The most points of the answer. If there are more, the lowest and highest of neighbouring points are kept",
    ),
  format: z.enum(["json", "csv"]).default("json"),
});
export type MetricsQuery = z.infer<typeof MetricsQuery>;

export const JobMetrics = later(() =>
  z
    .object({
      object: z.literal("training_job.metrics"),
      job_id: z.string(),
      keys: z.array(z.string()),
      total_points: z.int().describe("Steps before thinning"),
      sampled: z.boolean().describe("True if points were left out"),
      data: z.array(
        z.object({ step: z.int(), epoch: z.number(), time: DateTime, values: z.record(z.string(), z.number()) }),
      ),
    })
    .meta({ id: "TrainingJobMetrics" }),
);
export type JobMetrics = z.infer<typeof JobMetrics>;

export const SamplesQuery = PageQuery.extend({
  step: step.optional().describe("Default: the latest step with samples"),
  earlier_than: z
    .string()
    .regex(/^\d{1,9}-\d{1,9}$/, "must be the id of a sample, such as 12-0")
    .optional()
    .describe("Id of a sample. Lists samples of earlier steps with the same prompt, newest first"),
});
export type SamplesQuery = z.infer<typeof SamplesQuery>;

export const JobSample = later(() =>
  z
    .object({
      object: z.literal("training_job.sample"),
      id: z.string().describe("Step and number, unique within the job"),
      job_id: z.string(),
      step: z.int(),
      number: z.int(),
      prompt: z.unknown().describe("A text or chat messages, like in the dataset row"),
      completion: z.string(),
      reward: z.number().nullable(),
      sub_rewards: z.record(z.string(), z.number().nullable()),
      advantage: z.number().nullable(),
      tokens: z.int(),
      truncated: z.boolean(),
      error: z.string().nullable().describe("Why the completion has no reward"),
    })
    .meta({ id: "TrainingJobSample" }),
);

export const presentSample = (row: SampleRow): z.infer<typeof JobSample> => ({
  object: "training_job.sample",
  id: `${row.step}-${row.number}`,
  job_id: row.jobId,
  step: row.step,
  number: row.number,
  prompt: row.prompt,
  completion: row.completion,
  reward: row.reward,
  sub_rewards: row.subRewards,
  advantage: row.advantage,
  tokens: row.tokens,
  truncated: row.truncated,
  error: row.error,
});

export const JobCheckpoint = later(() =>
  z
    .object({
      object: z.literal("training_job.checkpoint"),
      id: z.string(),
      job_id: z.string(),
      step: z.int(),
      size_bytes: z.int(),
      metrics: z.record(z.string(), z.number()),
      is_best: z.boolean(),
      score: z.number().nullable().describe("The value that ranks the checkpoint; null if it has none"),
      ranked_by: z
        .string()
        .nullable()
        .describe("What score is, such as `eval_loss on held-out rows` or `mean reward of the last 10 steps`"),
      created_at: DateTime,
    })
    .meta({ id: "TrainingJobCheckpoint" }),
);

export const presentCheckpoint = (row: CheckpointRow, job: JobRow): z.infer<typeof JobCheckpoint> => ({
  object: "training_job.checkpoint",
  id: row.id,
  job_id: row.jobId,
  step: row.step,
  size_bytes: row.sizeBytes,
  metrics: row.metrics,
  is_best: row.id === job.bestCheckpointId,
  score: row.value,
  ranked_by: rankedBy(job),
  created_at: isoTime(row.createdAt),
});
