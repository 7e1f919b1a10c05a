import { integer, primaryKey, real, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Environment, Language } from "../../../lib/rewards/contract.ts";
import { JOB_STATUSES } from "../../../lib/training/job_status.ts";
import type { LoraSettings } from "../../../lib/training/lora.ts";
import { type JobResources, NETWORKS } from "../../../lib/training/resources.ts";
import type { RewardPart } from "../../../sandbox/reward/scorer_types.ts";
import { workspaces } from "../../access/workspaces/table.ts";
import type { ResolvedRows } from "../../data/datasets/stream/resolved.ts";
import type { EvaluatorReward } from "../../quality/evaluators/table.ts";

export const JOB_METHODS = ["grpo", "rloo", "distill", "sft", "dpo", "kto", "orpo", "custom"] as const;
export const FAILURE_CODES = [
  "reward_error",
  "dataset_error",
  "out_of_memory",
  "provisioning_failed",
  "timeout",
  "worker_crashed",
  "command_failed",
  "no_effective_update",
  "cost_limit",
] as const;
export type FailureCode = (typeof FAILURE_CODES)[number];

export type JobError = { code: FailureCode; message: string; param: string | null };
export type Lock = {
  base_model_sha256: string | null;
  /** Hash of the adapter that training starts from. Jobs of older versions lack the field. */
  adapter_sha256?: string | null;
  teacher_sha256?: string | null;
  snapshot_sha256: string | null;
  reward_sha256: string | null;
  /** Jobs of older versions lack the field. */
  resolver_sha256?: string | null;
  /** The stored version of the data resolver. Jobs of older versions lack both fields. */
  resolver_id?: string | null;
  resolver_version?: number | null;
  app_version: string;
  seed: number;
};
/**
 * `source`: sent with the job. `functions`: versions of the workspace by id, or built-in rewards by name. `parts`: all
 * of them with their code, copied when the job was created, so that a later deletion changes nothing for the job.
 */
export type Rewards = {
  source: string | null;
  language: Language | null;
  functions: { id: string; weight: number; params: Record<string, unknown> }[];
  parts: RewardPart[];
  /** Evaluators that are not code. Jobs of older versions lack the field. */
  evaluators?: EvaluatorReward[];
  /** Classes of one part, in which rollouts take several turns. Absent: a completion is one answer. */
  environments?: Environment[];
};
/**
 * Code that maps the rows of a job. The results are null until the rows are made. `stored`: the version that the code was
 * copied from, so that a later deletion changes nothing for the job; absent if the code came with the request.
 */
export type JobResolver = {
  stored?: { id: string; version: number; timeoutMs: number };
  source: string;
  language: Language;
  train: ResolvedRows | null;
  evaluation: ResolvedRows | null;
};
/**
 * The base model is not here yet, a connected dataset is still to be read, or its rows are still to be mapped by the data
 * resolver. `credentials`: the request brought some, which only the memory of that
 * server process has. `save_steps`: of the request; null derives it from the number of steps, which the rows decide.
 */
export type Reading = { credentials: boolean; save_steps: number | null };
export type Teacher = { name: string; id: string };
export type Warning = { message: string; param: string | null };
export type Gpu = { type: string; count: number };
/** Without `read_only`: of an older version, see `isReadOnly`. */
export type JobVolume = { name: string; mount_path: string; read_only?: boolean };

export const HUB_VARIANTS = ["adapter", "merged", "gguf"] as const;
const PAUSE_REASONS = ["by request", "out of credit", "out of budget", "out of storage"] as const;

export const trainingJobs = sqliteTable("training_jobs", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  status: text("status", { enum: JOB_STATUSES }).notNull(),
  method: text("method", { enum: JOB_METHODS }).notNull(),
  baseModel: text("base_model"),
  baseModelId: text("base_model_id"),
  /** The adapter that training starts from, on the base model. */
  startModelId: text("start_model_id"),
  /** The model that a student learns from, by the name of the request and by its id. */
  teacher: text("teacher", { mode: "json" }).$type<Teacher>(),
  outputName: text("output_name").notNull(),
  datasetId: text("dataset_id"),
  snapshotNumber: integer("snapshot_number"),
  numRows: integer("num_rows"),
  evalDatasetId: text("eval_dataset_id"),
  evalSnapshotNumber: integer("eval_snapshot_number"),
  /** Null when the rows are pinned. */
  reading: text("reading", { mode: "json" }).$type<Reading>(),
  hyperparameters: text("hyperparameters", { mode: "json" }).$type<Record<string, unknown>>().notNull(),
  /** Hyperparameters as the request had them; a clone starts from these. */
  given: text("given", { mode: "json" }).$type<Record<string, unknown>>(),
  lora: text("lora", { mode: "json" }).$type<LoraSettings>(),
  rewards: text("rewards", { mode: "json" }).$type<Rewards>().notNull(),
  resolver: text("resolver", { mode: "json" }).$type<JobResolver>(),
  gpuType: text("gpu_type").notNull(),
  gpuCount: integer("gpu_count").notNull(),
  gpu: text("gpu", { mode: "json" }).$type<Gpu>(),
  provider: text("provider").notNull(),
  /** `local`, or the id of a region. */
  region: text("region").notNull(),
  /** Why the job runs there. Null for jobs of older versions. */
  placement: text("placement"),
  /** Higher goes first: low -1, normal 0, high 1. */
  priority: integer("priority").notNull(),
  seed: integer("seed").notNull(),
  lock: text("lock", { mode: "json" }).$type<Lock>().notNull(),
  sourceJob: text("source_job"),
  resumeFrom: text("resume_from"),
  codeArtifactId: text("code_artifact_id"),
  command: text("command"),
  /** Null for jobs that are not custom, and for those of older versions. */
  resources: text("resources", { mode: "json" }).$type<JobResources>(),
  network: text("network", { enum: NETWORKS }),
  /** Names of the variables. */
  envNames: text("env_names", { mode: "json" }).$type<string[]>().notNull(),
  /** Their values too. Empty without variables. */
  envSealed: text("env_sealed").notNull(),
  secrets: text("secrets", { mode: "json" }).$type<string[]>().notNull(),
  volumes: text("volumes", { mode: "json" }).$type<JobVolume[]>().notNull(),
  saveSteps: integer("save_steps").notNull(),
  keepLast: integer("keep_last").notNull(),
  maxRuntimeMs: integer("max_runtime_ms"),
  maxCostMicros: integer("max_cost_micros"),
  publish: integer("publish", { mode: "boolean" }).notNull(),
  /** Set while the job is published. No two jobs have the same time. */
  publishedAt: integer("published_at"),
  likeCount: integer("like_count").notNull(),
  trackerRunUrl: text("tracker_run_url"),
  /** owner/name on the hub: the result is pushed there when the job completes. */
  hubRepo: text("hub_repo"),
  hubVariant: text("hub_variant", { enum: HUB_VARIANTS }),
  hubPrivate: integer("hub_private", { mode: "boolean" }).notNull().default(true),
  /** When that push was asked for. */
  hubAskedAt: integer("hub_asked_at"),
  /** The repository of the last push that has completed. */
  hubRepoUrl: text("hub_repo_url"),
  step: integer("step").notNull(),
  totalSteps: integer("total_steps").notNull(),
  etaMs: integer("eta_ms"),
  latestMetrics: text("latest_metrics", { mode: "json" }).$type<Record<string, number>>().notNull(),
  bestCheckpointId: text("best_checkpoint_id"),
  memoryBytes: integer("memory_bytes").notNull(),
  microDivisor: integer("micro_divisor").notNull(),
  memoryRetries: integer("memory_retries").notNull(),
  crashes: integer("crashes").notNull(),
  crashStep: integer("crash_step").notNull(),
  notBefore: integer("not_before").notNull(),
  pauseReason: text("pause_reason", { enum: PAUSE_REASONS }),
  queueReason: text("queue_reason"),
  warnings: text("warnings", { mode: "json" }).$type<Warning[]>().notNull(),
  error: text("error", { mode: "json" }).$type<JobError>(),
  /** Why a completed job did not do all steps. */
  stoppedEarly: text("stopped_early"),
  rateMicros: integer("rate_micros"),
  costMicros: integer("cost_micros").notNull(),
  /** Not yet charged, because it is less than a micro-dollar. */
  costRemainder: integer("cost_remainder").notNull(),
  runMs: integer("run_ms").notNull(),
  runSince: integer("run_since"),
  /** The last known activity of the present run. */
  runUntil: integer("run_until"),
  /** Counted up to `energyAt`; null if never measured. */
  energyJoules: integer("energy_joules"),
  energyWatts: real("energy_watts"),
  energyAt: integer("energy_at"),
  /** Null while the log is not stored, and for an empty log. */
  logKey: text("log_key"),
  /** Null while the log is not stored. */
  logBytes: integer("log_bytes"),
  /** Standard output comes first in the stored log. Null: both streams are mixed. */
  logStdoutBytes: integer("log_stdout_bytes"),
  metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>().notNull(),
  tags: text("tags", { mode: "json" }).$type<string[]>().notNull().default([]),
  notes: text("notes").notNull().default(""),
  group: text("job_group"),
  queuedAt: integer("queued_at").notNull(),
  startedAt: integer("started_at"),
  completedAt: integer("completed_at"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
  /** The key that pays: it created the job, or resumed it last. */
  apiKeyId: text("api_key_id"),
  /** Set when samples, events, log and most metrics were removed, because the job ended long ago. */
  detailsRemovedAt: integer("details_removed_at"),
});
export type JobRow = typeof trainingJobs.$inferSelect;

const ofJob = () =>
  text("job_id")
    .notNull()
    .references(() => trainingJobs.id, { onDelete: "cascade" });

export const trainingCheckpoints = sqliteTable("training_checkpoints", {
  id: text("id").primaryKey(),
  jobId: ofJob(),
  workspaceId: text("workspace_id").notNull(),
  step: integer("step").notNull(),
  path: text("path").notNull(),
  sizeBytes: integer("size_bytes").notNull(),
  metrics: text("metrics", { mode: "json" }).$type<Record<string, number>>().notNull(),
  value: real("value"),
  createdAt: integer("created_at").notNull(),
  deletedAt: integer("deleted_at"),
});
export type CheckpointRow = typeof trainingCheckpoints.$inferSelect;

export const trainingMetrics = sqliteTable(
  "training_metrics",
  {
    jobId: ofJob(),
    step: integer("step").notNull(),
    epoch: real("epoch").notNull(),
    time: integer("time").notNull(),
    values: text("values", { mode: "json" }).$type<Record<string, number>>().notNull(),
  },
  (table) => [primaryKey({ columns: [table.jobId, table.step] })],
);

/** Figures of the machine while a job ran on it. */
export const trainingSystem = sqliteTable(
  "training_system",
  {
    jobId: ofJob(),
    time: integer("time").notNull(),
    values: text("values", { mode: "json" }).$type<Record<string, number>>().notNull(),
  },
  (table) => [primaryKey({ columns: [table.jobId, table.time] })],
);

export const trainingSamples = sqliteTable(
  "training_samples",
  {
    jobId: ofJob(),
    step: integer("step").notNull(),
    number: integer("number").notNull(),
    prompt: text("prompt", { mode: "json" }).$type<unknown>().notNull(),
    completion: text("completion").notNull(),
    reward: real("reward"),
    subRewards: text("sub_rewards", { mode: "json" }).$type<Record<string, number | null>>().notNull(),
    advantage: real("advantage"),
    tokens: integer("tokens").notNull(),
    truncated: integer("truncated", { mode: "boolean" }).notNull(),
    error: text("error"),
  },
  (table) => [primaryKey({ columns: [table.jobId, table.step, table.number] })],
);
export type SampleRow = typeof trainingSamples.$inferSelect;

export const EVENT_LEVELS = ["info", "warn", "error"] as const;
export const trainingEvents = sqliteTable("training_events", {
  id: text("id").primaryKey(),
  jobId: ofJob(),
  workspaceId: text("workspace_id").notNull(),
  level: text("level", { enum: EVENT_LEVELS }).notNull(),
  type: text("type").notNull(),
  message: text("message").notNull(),
  data: text("data", { mode: "json" }).$type<Record<string, unknown>>().notNull(),
  createdAt: integer("created_at").notNull(),
});
export type JobEventRow = typeof trainingEvents.$inferSelect;

/** `files`: the output of a custom job, from /workspace/output. */
export const VARIANTS = ["adapter", "merged", "gguf", "peft", "huggingface", "files"] as const;
export const trainingExports = sqliteTable("training_exports", {
  id: text("id").primaryKey(),
  jobId: ofJob(),
  workspaceId: text("workspace_id").notNull(),
  checkpointId: text("checkpoint_id").notNull(),
  variant: text("variant", { enum: VARIANTS }).notNull(),
  quantization: text("quantization").notNull(),
  status: text("status", { enum: ["preparing", "ready", "failed"] }).notNull(),
  storageKey: text("storage_key"),
  fileName: text("file_name"),
  sizeBytes: integer("size_bytes"),
  sha256: text("sha256"),
  modelId: text("model_id"),
  error: text("error"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type ExportRow = typeof trainingExports.$inferSelect;
