import { z } from "zod";
import { DateTime, isoOrNull, Label, later, Metadata } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { snapshotId } from "../../data/datasets/schema.ts";
import { type ExperimentRow, STATUSES, TARGET_TYPES } from "./table.ts";

const MAX_TARGETS = 16;
const MAX_EVALUATORS = 16;
const MAX_CONCURRENCY = 64;

const TargetName = Label(100).optional().describe("Unique in the experiment. Default: made from what the target is");

export const CreateTarget = later(() =>
  z
    .discriminatedUnion("type", [
      z.object({ type: z.literal("deployment"), name: TargetName, deployment: Label(100).describe("Its id or name") }),
      z.object({
        type: z.literal("checkpoint"),
        name: TargetName,
        job: Label(100).describe("A training job"),
        checkpoint: Label(100).nullable().default(null).describe("Null: the result of the job"),
      }),
      z.object({ type: z.literal("model"), name: TargetName, model: Label(300).describe("A base model by its name") }),
      z.object({
        type: z.literal("outputs"),
        name: TargetName,
        field: Label(100).describe("The column of each row that holds a recorded answer"),
      }),
    ])
    .meta({ id: "CreateExperimentTarget" }),
);
export type CreateTarget = z.infer<typeof CreateTarget>;

const Params = later(() =>
  z.object({
    temperature: z.number().min(0).max(2).default(0),
    max_tokens: z.int().min(1).max(1_000_000).optional().describe("Default: the rest of the context"),
    top_p: z.number().min(0).max(1).optional(),
    seed: z.int().optional(),
    stop: z.array(z.string().min(1).max(256)).max(16).optional(),
  }),
);

export const CreateExperiment = later(() =>
  z
    .object({
      name: Label(200).optional(),
      dataset: Label(200).describe(
        "A dataset (ds_…), which is pinned as it is now, or a snapshot of one (ds_…@snap-3)",
      ),
      targets: z.array(CreateTarget).min(1).max(MAX_TARGETS),
      evaluators: z
        .array(Label(200))
        .min(1)
        .max(MAX_EVALUATORS)
        .describe("Each is an id, a name (the newest version) or name@3"),
      baseline: Label(100).optional().describe("The name of the target to compare with. Default: the first target"),
      max_rows: z.int().min(1).optional().describe("Run only the first rows of the snapshot"),
      reference_field: Label(100)
        .optional()
        .describe("The column with the right answer. Default: by the format of the row"),
      system_prompt: z.string().min(1).max(100_000).optional().describe("Replaces the system message of every row"),
      params: Params.default({ temperature: 0 }).describe("Sampling of the generated answers"),
      concurrency: z
        .int()
        .min(1)
        .max(MAX_CONCURRENCY)
        .default(4)
        .describe("Items at once. Live requests of a deployment always go first"),
      metadata: Metadata.default({}),
    })
    .meta({ id: "CreateExperiment" }),
);
export type CreateExperiment = z.infer<typeof CreateExperiment>;

const Target = later(() =>
  z.object({
    name: z.string(),
    type: z.enum(TARGET_TYPES),
    deployment_id: z.string().nullable().describe("Null until a temporary deployment exists, and for recorded outputs"),
    temporary: z.boolean().describe("The experiment created the deployment and stops it"),
    job_id: z.string().nullable().describe("The training job that made the model, at the request; else null"),
    checkpoint_id: z.string().nullable(),
    model: z.string().nullable().describe("The name of a model that no job made"),
    field: z.string().nullable(),
  }),
);

export const Experiment = later(() =>
  z
    .object({
      object: z.literal("experiment"),
      id: z.string(),
      name: z.string(),
      status: z.enum(STATUSES),
      dataset_id: z.string(),
      snapshot: z.string(),
      row_count: z.int(),
      targets: z.array(Target),
      evaluators: z.array(z.object({ id: z.string(), name: z.string(), version: z.int() })),
      baseline: z.string().describe("Name of a target"),
      reference_field: z.string().nullable(),
      system_prompt: z.string().nullable(),
      params: Params,
      concurrency: z.int(),
      progress: z.object({
        total: z.int().describe("Rows × targets"),
        done: z.int(),
        failed: z.int().describe("Items of `done` that have an error"),
      }),
      error: z.string().nullable(),
      error_code: z.string().nullable(),
      metadata: z.record(z.string(), z.string()),
      created_at: DateTime,
      updated_at: DateTime,
      started_at: DateTime.nullable(),
      finished_at: DateTime.nullable(),
    })
    .meta({ id: "Experiment" }),
);
export type Experiment = z.infer<typeof Experiment>;

export const baselineOf = ({ targets, baseline }: Pick<ExperimentRow, "targets" | "baseline">): string =>
  targets[baseline]?.name ?? "";

export const present = (row: ExperimentRow): Experiment => ({
  object: "experiment",
  id: row.id,
  name: row.name,
  status: row.status,
  dataset_id: row.datasetId,
  snapshot: snapshotId(row.snapshotNumber),
  row_count: row.rowCount,
  targets: row.targets.map((target) => ({
    name: target.name,
    type: target.type,
    deployment_id: target.deploymentId,
    temporary: target.temporary,
    job_id: target.jobId,
    checkpoint_id: target.checkpointId,
    model: target.model,
    field: target.field,
  })),
  evaluators: row.evaluators.map(({ id, label, version }) => ({ id, name: label, version })),
  baseline: baselineOf(row),
  reference_field: row.referenceField,
  system_prompt: row.systemPrompt,
  params: row.params,
  concurrency: row.concurrency,
  progress: { total: row.rowCount * row.targets.length, done: row.itemsDone, failed: row.itemsFailed },
  error: row.error,
  error_code: row.errorCode,
  metadata: row.metadata,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
  started_at: isoOrNull(row.startedAt),
  finished_at: isoOrNull(row.finishedAt),
});
