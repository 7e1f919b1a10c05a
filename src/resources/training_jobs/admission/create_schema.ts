import { z } from "zod";
import { LANGUAGES, MAX_SOURCE_BYTES } from "../../../lib/rewards/contract.ts";
import { Label, Metadata } from "../../../lib/schema.ts";
import { Credentials } from "../../../lib/source.ts";
import { hyperparametersSchema, METHODS } from "../../../lib/training/hyperparameters.ts";
import { LoraSettings } from "../../../lib/training/lora.ts";
import { RewardRef } from "../../reward_functions/schema.ts";
import { MountPath } from "../../sessions/schema.ts";
import { JOB_METHODS } from "../table.ts";

export const PRIORITIES = { low: -1, normal: 0, high: 1 } as const;
export type Priority = keyof typeof PRIORITIES;
export const MAX_SEED = 2 ** 31 - 1;
const MAX_COMMAND_BYTES = 100_000; // the kernel takes 128 KiB for one argument

const DATASET = /^ds_[0-9a-z]{26}(@(latest|snap-[1-9]\d{0,8}))?$/;
const DatasetRef = z
  .string()
  .regex(DATASET, "must be the id of a dataset, alone or with a snapshot, such as ds_…@snap-3 or ds_…@latest")
  .describe("ds_…, ds_…@latest or ds_…@snap-3; the first two pin the rows that are there now");

const document = (schema: z.ZodType): Record<string, unknown> => {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: "input" }) as Record<string, unknown>;
  return json;
};

/** Read by lib/training/hyperparameters.ts, which says better what is wrong; the document shows what there is. */
const Hyperparameters = z.record(z.string(), z.unknown()).meta({
  id: "Hyperparameters",
  description: "TRL's names, by method. auto may stand anywhere; what is absent takes TRL's default",
  // When the document is made: 35 ms of every start otherwise.
  get anyOf() {
    return METHODS.map((method) => ({ title: method, ...document(hyperparametersSchema(method)) }));
  },
});
const Lora = z.record(z.string(), z.unknown()).meta({
  id: "Lora",
  description: "Null: all weights are trained",
  get properties() {
    return document(LoraSettings)["properties"];
  },
  additionalProperties: false,
});

const Source = z
  .string()
  .min(1)
  .refine((text) => Buffer.byteLength(text) <= MAX_SOURCE_BYTES, `is longer than ${MAX_SOURCE_BYTES} bytes`)
  .refine((text) => text.isWellFormed(), "must be well-formed Unicode");

const Command = z
  .string()
  .trim()
  .min(1)
  .refine((text) => Buffer.byteLength(text) <= MAX_COMMAND_BYTES, `takes at most ${MAX_COMMAND_BYTES} bytes`)
  .refine((text) => !text.includes("\0"), "must not contain a NUL")
  .refine((text) => text.isWellFormed(), "must be well-formed Unicode");

/** Nothing has a default here: with source_job, what is absent is what that job had. */
export const CreateTrainingJob = z
  .object({
    base_model: Label(300).optional().describe("A model of the registry, by id or name. Required but for custom"),
    method: z.enum(JOB_METHODS).optional().describe("Required, unless source_job has one"),
    output_name: Label(100).optional().describe("What the model it makes is called"),
    dataset: DatasetRef.optional().describe("Required but for custom"),
    dataset_id: DatasetRef.optional().describe("The same as dataset"),
    eval_dataset: DatasetRef.nullable().optional().describe("Held-out rows, to be measured on"),
    reward_source: Source.nullable().optional().describe("Reward code of this job (grpo)"),
    reward_language: z.enum(LANGUAGES).nullable().optional().describe("Of reward_source; default: detected"),
    reward_functions: z.array(RewardRef).max(16).optional().describe("Beside or instead of reward_source"),
    hyperparameters: Hyperparameters.optional(),
    lora: Lora.nullable().optional(),
    gpu: z
      .object({ gpu_type: Label(64).optional(), gpu_count: z.int().min(1).max(64).default(1) })
      .optional()
      .describe("Default: one of what this machine has"),
    provider: Label(64).optional().describe("Only local runs jobs; the default"),
    resume_from: z
      .string()
      .max(80)
      .nullable()
      .optional()
      .describe("A checkpoint (ckpt_…) whose weights it begins with"),
    source_job: z.string().max(80).nullable().optional().describe("A job (job_…) to clone; given fields override"),
    code_artifact_id: z.string().max(80).nullable().optional().describe("Of custom: the code"),
    command: Command.nullable().optional().describe("Of custom: what is run in the directory of the code"),
    credentials: Credentials.nullish().describe("For a connected dataset; used for this reading alone, never stored"),
    secrets: z.array(z.string().min(1).max(128)).max(64).optional().describe("Names; variables of a custom job"),
    volumes: z
      .array(z.object({ name: z.string().min(1).max(80), mount_path: MountPath }))
      .max(16)
      .optional(),
    max_runtime_minutes: z.number().min(1).optional().describe("Default and most: training.max_runtime_minutes"),
    max_cost_usd: z.number().positive().max(1e9).nullable().optional(),
    priority: z.enum(["low", "normal", "high"]).optional(),
    checkpoint: z
      .object({
        save_steps: z.int().min(0).max(1e7).optional().describe("0: only at the end. Default: a tenth of all steps"),
        keep_last: z.int().min(1).max(1000).optional().describe("Beside the best one. Default 3"),
      })
      .optional(),
    publish: z.boolean().optional(),
    seed: z.int().min(0).max(MAX_SEED).optional().describe("Default: drawn, and recorded"),
    metadata: Metadata.optional(),
    dry_run: z.boolean().optional().describe("Validate alone: answers as POST /v1/training_jobs/validate"),
  })
  .refine(({ dataset, dataset_id }) => !dataset || !dataset_id || dataset === dataset_id, {
    path: ["dataset_id"],
    message: "says something else than dataset: send one of them",
  })
  .meta({ id: "CreateTrainingJob" });
export type CreateTrainingJob = z.infer<typeof CreateTrainingJob>;
