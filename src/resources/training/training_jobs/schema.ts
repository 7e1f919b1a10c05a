import { z } from "zod";
import { usdOf } from "../../../lib/money.ts";
import { DateTime, isoOrNull, Label, later } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { JOB_STATUSES } from "../../../lib/training/job_status.ts";
import { LoraSettings } from "../../../lib/training/lora.ts";
import { HEADLINE_METRIC, isLowerBetter } from "../../../lib/training/metrics.ts";
import { NETWORKS } from "../../../lib/training/resources.ts";
import { MINUTE_MS } from "../../../lib/units.ts";
import { snapshotId } from "../../data/datasets/schema.ts";
import { costOf } from "../../money/billing/service.ts";
import { wattHours } from "../../money/energy/watts.ts";
import { isReadOnly, rankedBy } from "./policy.ts";
import { FAILURE_CODES, JOB_METHODS, type JobRow } from "./table.ts";

export const PRIORITIES = { low: -1, normal: 0, high: 1 } as const;
export type Priority = keyof typeof PRIORITIES;

const Gpu = z.object({ type: z.string(), count: z.int() });
const Sha256 = z.string().nullable();

/** owner/name, as the hub allows names. */
export const HubRepo = z
  .string()
  .regex(/^(?!.*(?:\.\.|--))[A-Za-z0-9][\w.-]{0,95}\/[A-Za-z0-9][\w.-]{0,95}$/, "must be owner/name")
  .refine((repo) => !/\.git$|[.-]$/.test(repo), "must not end in .git, a dot or a hyphen");

const PinnedDataset = () => ({
  id: z.string(),
  name: z.string().nullable().describe("Null if the dataset was deleted"),
  snapshot_id: z.string().nullable(),
});

const MOST_TAGS = 20;

/** Fields that people write on a job to find it again. They change nothing in the training. */
export const arrangedFields = () => ({
  tags: z
    .array(Label(50))
    .max(MOST_TAGS)
    .transform((tags) => [...new Set(tags)])
    .optional()
    .describe(`At most ${MOST_TAGS}. A tag that is given twice is kept once`),
  notes: z
    .string()
    .max(10_000)
    .refine((text) => text.isWellFormed(), "must be well-formed Unicode")
    .optional()
    .describe("Any text"),
  group: Label(100).nullable().optional().describe("Jobs that belong together, such as those of one experiment"),
});
export const UpdateTrainingJob = later(() => z.object(arrangedFields()).meta({ id: "UpdateTrainingJob" }));
export type UpdateTrainingJob = z.infer<typeof UpdateTrainingJob>;

export const TrainingJob = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("training_job"),
      status: z.enum(JOB_STATUSES),
      base_model: z.string().describe("custom for a custom job without one"),
      teacher_model: z.string().nullable().describe("Null unless the method is distill"),
      method: z.enum(JOB_METHODS),
      output_name: z.string(),
      gpu_requested: Gpu,
      gpu: Gpu.nullable().describe("Null until the job has hardware"),
      dataset: z.object({ ...PinnedDataset(), num_rows: z.int().nullable() }).nullable(),
      eval_dataset: z.object(PinnedDataset()).nullable(),
      hyperparameters: z.record(z.string(), z.unknown()).describe("Every hyperparameter, with its resolved value"),
      lora: LoraSettings.nullable().describe("Null if all weights are trained"),
      reward_source: z.string().nullable().describe("Null in lists"),
      reward_language: z.string().nullable(),
      reward_functions: z.array(
        z.object({ id: z.string(), weight: z.number(), params: z.record(z.string(), z.unknown()) }),
      ),
      data_resolver: z.string().nullable().describe("Id of the stored version of the data resolver"),
      data_resolver_source: z.string().nullable().describe("Null in lists, and for a stored data resolver"),
      data_resolver_language: z.string().nullable(),
      data_resolver_rows: z
        .object({ rows_in: z.int(), rows_out: z.int() })
        .nullable()
        .describe("How many rows the data resolver made of how many; null until the rows are made"),
      provider: z.string(),
      region: z.string().describe("local, or the id of a region"),
      placement: z.string().nullable().describe("Why the job runs there"),
      priority: z.enum(["low", "normal", "high"]),
      seed: z.int(),
      source_job: z.string().nullable(),
      resume_from: z.string().nullable(),
      code_artifact_id: z.string().nullable(),
      command: z.string().nullable(),
      secrets: z.array(z.string()).describe("Names"),
      volumes: z.array(z.object({ name: z.string(), mount_path: z.string(), read_only: z.boolean() })),
      resources: z
        .object({
          memory_mib: z.int(),
          cpus: z.int().nullable().describe("Null: all"),
          disk_mib: z.int(),
          gpu_memory_mib: z.int().nullable().describe("Null: the whole GPU"),
        })
        .nullable()
        .describe("What the command of a custom job may use; null for other jobs"),
      network: z.enum(NETWORKS).nullable().describe("Of the command of a custom job; null for other jobs"),
      env: z.array(z.string()).describe("Names of the variables of a custom job"),
      checkpoint: z.object({ save_steps: z.int(), keep_last: z.int() }),
      max_runtime_minutes: z.number().nullable(),
      max_cost_usd: z.number().nullable(),
      publish: z.boolean(),
      published_at: DateTime.nullable().describe("Null unless the job is published"),
      tracker_run_url: z.string().nullable().describe("The run in the experiment tracker"),
      hub_repo: z.string().nullable().describe("The result is pushed there when the job completes"),
      hub_repo_url: z.string().nullable().describe("The repository on the hub, once a push has completed"),
      progress: z.object({
        step: z.int(),
        total_steps: z.int().describe("0 if unknown"),
        percent: z.number().min(0).max(100),
        eta_seconds: z.number().nullable(),
      }),
      load: z
        .object({
          stage: z.enum(["fetching_model", "reading_dataset"]),
          progress: z.number().min(0).max(1).nullable().describe("Null while it is unknown"),
          reason: z.string(),
        })
        .nullable()
        .describe("What the job does before it can wait for a device; null if nothing"),
      latest_metrics: z.record(z.string(), z.number()),
      headline_metric: z
        .object({ name: z.string(), value: z.number(), better: z.enum(["higher", "lower"]) })
        .nullable()
        .describe("The metric that shows how the job goes, and which way is better; null before the first step"),
      best_checkpoint_id: z.string().nullable().describe("Null while no checkpoint has learned anything"),
      best_by: z
        .string()
        .nullable()
        .describe("What ranks the checkpoints: a metric on held-out rows, or its mean over the last steps"),
      memory_bytes: z.int().describe("Estimated memory on the device"),
      queue_position: z
        .int()
        .nullable()
        .describe("1 starts next; null if the job is not queued, or still fetches its model or its dataset"),
      queue_reason: z.string().nullable().describe("What the job waits for"),
      pause_reason: z.string().nullable(),
      warnings: z
        .array(z.object({ message: z.string(), param: z.string().nullable() }))
        .describe("What the request had and the job ignores"),
      error: z
        .object({ code: z.enum(FAILURE_CODES), message: z.string(), param: z.string().nullable() })
        .nullable()
        .describe("Why the job failed"),
      stopped_early: z
        .string()
        .nullable()
        .describe("Why a completed job did not do all steps: its held-out metric no longer improved"),
      cost_usd: z.number(),
      energy_wh: z
        .number()
        .nullable()
        .describe("Energy of the GPUs in watt-hours; null if they report none or the job has not run"),
      lock: z
        .object({
          base_model_sha256: Sha256,
          adapter_sha256: Sha256.describe("Of the adapter that training starts from"),
          teacher_sha256: Sha256,
          snapshot_sha256: Sha256,
          reward_sha256: Sha256,
          resolver_sha256: Sha256,
          resolver_id: z.string().nullable().describe("Of a stored data resolver"),
          resolver_version: z.int().nullable(),
          app_version: z.string(),
          seed: z.int(),
        })
        .describe("What is needed to repeat the job"),
      metadata: z.record(z.string(), z.string()),
      tags: z.array(z.string()),
      notes: z.string(),
      group: z.string().nullable(),
      started_at: DateTime.nullable(),
      completed_at: DateTime.nullable(),
      created_at: DateTime,
      updated_at: DateTime,
    })
    .meta({ id: "TrainingJob" }),
);
export type TrainingJob = z.infer<typeof TrainingJob>;

/** Facts that are not in the row. Lists leave out the reward's source. */
export type Live = {
  now: number;
  queuePosition: number | null;
  queueReason: string | null;
  load: TrainingJob["load"];
  /** By the id of a dataset. */
  datasetName: (id: string) => string | null;
  withSource: boolean;
};

export const present = (row: JobRow, live: Live): TrainingJob => ({
  id: row.id,
  object: "training_job",
  status: row.status,
  base_model: row.baseModel ?? "custom",
  teacher_model: row.teacher?.name ?? null,
  method: row.method,
  output_name: row.outputName,
  gpu_requested: { type: row.gpuType, count: row.gpuCount },
  gpu: row.gpu,
  ...datasetsOf(row, live),
  hyperparameters: row.hyperparameters,
  lora: row.lora,
  reward_source: live.withSource ? row.rewards.source : null,
  reward_language: row.rewards.language,
  reward_functions: row.rewards.functions,
  data_resolver: row.resolver?.stored?.id ?? null,
  data_resolver_source: live.withSource && !row.resolver?.stored ? (row.resolver?.source ?? null) : null,
  data_resolver_language: row.resolver?.language ?? null,
  data_resolver_rows: row.resolver?.train
    ? { rows_in: row.resolver.train.rows_in, rows_out: row.resolver.train.rows }
    : null,
  provider: row.provider,
  region: row.region,
  placement: row.placement,
  priority: priorityOf(row),
  seed: row.seed,
  source_job: row.sourceJob,
  resume_from: row.resumeFrom,
  code_artifact_id: row.codeArtifactId,
  command: row.command,
  secrets: row.secrets,
  volumes: row.volumes.map((volume) => ({ ...volume, read_only: isReadOnly(volume) })),
  resources: row.resources,
  network: row.network,
  env: row.envNames,
  checkpoint: { save_steps: row.saveSteps, keep_last: row.keepLast },
  max_runtime_minutes: row.maxRuntimeMs === null ? null : row.maxRuntimeMs / MINUTE_MS,
  max_cost_usd: row.maxCostMicros === null ? null : usdOf(row.maxCostMicros),
  publish: row.publish,
  published_at: isoOrNull(row.publishedAt),
  tracker_run_url: row.trackerRunUrl,
  hub_repo: row.hubRepo,
  hub_repo_url: row.hubRepoUrl,
  progress: progressOf(row),
  load: live.load,
  latest_metrics: row.latestMetrics,
  headline_metric: headlineOf(row),
  best_checkpoint_id: row.bestCheckpointId,
  best_by: rankedBy(row),
  memory_bytes: row.memoryBytes,
  queue_position: live.queuePosition,
  queue_reason: live.queueReason,
  pause_reason: row.pauseReason,
  warnings: row.warnings,
  error: row.error,
  stopped_early: row.stoppedEarly,
  cost_usd: usdOf(costMicrosOf(row, live.now)),
  energy_wh: wattHours(row.energyJoules),
  lock: {
    adapter_sha256: null,
    teacher_sha256: null,
    resolver_sha256: null,
    resolver_id: null,
    resolver_version: null,
    ...row.lock,
  },
  metadata: row.metadata,
  tags: row.tags,
  notes: row.notes,
  group: row.group,
  started_at: isoOrNull(row.startedAt),
  completed_at: isoOrNull(row.completedAt),
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});

/** Cost so far, including the present run. */
export const costMicrosOf = (row: JobRow, now: number): number =>
  row.costMicros + (row.runSince === null ? 0 : costOf(row.rateMicros, now - row.runSince));

function datasetsOf(row: JobRow, { datasetName }: Live): Pick<TrainingJob, "dataset" | "eval_dataset"> {
  const nameOf = (number: number | null) => (number === null ? null : snapshotId(number));
  return {
    dataset:
      row.datasetId === null
        ? null
        : {
            id: row.datasetId,
            name: datasetName(row.datasetId),
            snapshot_id: nameOf(row.snapshotNumber),
            num_rows: row.numRows,
          },
    eval_dataset:
      row.evalDatasetId === null
        ? null
        : {
            id: row.evalDatasetId,
            name: datasetName(row.evalDatasetId),
            snapshot_id: nameOf(row.evalSnapshotNumber),
          },
  };
}

export const priorityOf = ({ priority }: JobRow): Priority =>
  (Object.keys(PRIORITIES) as Priority[]).find((name) => PRIORITIES[name] === priority) ?? "normal";

function progressOf({ status, step, totalSteps, etaMs }: JobRow): TrainingJob["progress"] {
  const share = totalSteps > 0 ? Math.min(100, (100 * step) / totalSteps) : 0;
  return {
    step,
    total_steps: totalSteps,
    percent: status === "completed" ? 100 : Number(share.toFixed(2)),
    eta_seconds: status === "running" && etaMs !== null ? Math.round(etaMs / 1000) : null,
  };
}

function headlineOf({ method, latestMetrics }: JobRow): TrainingJob["headline_metric"] {
  const name = method === "custom" ? undefined : HEADLINE_METRIC[method];
  const value = name === undefined ? undefined : latestMetrics[name];
  return name === undefined || value === undefined
    ? null
    : { name, value, better: isLowerBetter(name) ? "lower" : "higher" };
}
