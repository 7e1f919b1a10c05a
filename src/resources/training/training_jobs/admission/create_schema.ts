import { z } from "zod";
import { LANGUAGES, MAX_SOURCE_BYTES } from "../../../../lib/rewards/contract.ts";
import { Label, later, Metadata } from "../../../../lib/schema.ts";
import { Credentials } from "../../../../lib/source.ts";
import { FIELDS, METHODS, type Method } from "../../../../lib/training/fields.ts";
import { hyperparametersSchema } from "../../../../lib/training/hyperparameters.ts";
import { LoraSettings } from "../../../../lib/training/lora.ts";
import { NETWORKS } from "../../../../lib/training/resources.ts";
import { Env, isInWorkspace, MountPath } from "../../../machines/sessions/schema.ts";
import { RewardRef } from "../../reward_functions/schema.ts";
import { arrangedFields, HubRepo } from "../schema.ts";
import { HUB_VARIANTS, JOB_METHODS } from "../table.ts";

export const MAX_SEED = 2 ** 31 - 1;
const MAX_COMMAND_BYTES = 100_000; // the kernel allows 128 KiB for one argument

const DatasetRef = Label(300).describe(
  "The id or the name of a dataset, alone or with a snapshot: ds_…, shop, ds_…@latest, shop@snap-3. Without a snapshot, and with @latest, the rows of now are pinned",
);

const document = (schema: z.ZodType): Record<string, unknown> => {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: "input" }) as Record<string, unknown>;
  return json;
};

/** Most fields belong to several methods, and each is described once: the whole in one piece takes 50 ms. */
const described = new Map<z.ZodType, Record<string, unknown>>();
function documentOf(method: Method): Record<string, unknown> {
  const { shape } = hyperparametersSchema(method);
  const properties = Object.entries(FIELDS[method] as Record<string, z.ZodType>).map(([name, field]) => {
    const known = described.get(field) ?? document(shape[name] as z.ZodType);
    described.set(field, known);
    return [name, known];
  });
  return { type: "object", properties: Object.fromEntries(properties), additionalProperties: false };
}

/** lib/training/hyperparameters.ts checks the fields and gives better errors; this schema only documents them. */
const Hyperparameters = later(() =>
  z.record(z.string(), z.unknown()).meta({
    id: "Hyperparameters",
    description: "TRL's names, by method. Any value may be auto; a missing one gets TRL's default",
    // A getter: building it takes 35 ms, which a start of the server must not pay.
    get anyOf() {
      return METHODS.map((method) => ({ title: method, ...documentOf(method) }));
    },
  }),
);
const Lora = later(() =>
  z.record(z.string(), z.unknown()).meta({
    id: "Lora",
    description: "Null trains all weights",
    get properties() {
      return document(LoraSettings)["properties"];
    },
    additionalProperties: false,
  }),
);

const Source = later(() =>
  z
    .string()
    .min(1)
    .refine((text) => Buffer.byteLength(text) <= MAX_SOURCE_BYTES, `is longer than ${MAX_SOURCE_BYTES} bytes`)
    .refine((text) => text.isWellFormed(), "must be well-formed Unicode"),
);

const Command = later(() =>
  z
    .string()
    .trim()
    .min(1)
    .refine((text) => Buffer.byteLength(text) <= MAX_COMMAND_BYTES, `takes at most ${MAX_COMMAND_BYTES} bytes`)
    .refine((text) => !text.includes("\0"), "must not contain a NUL")
    .refine((text) => text.isWellFormed(), "must be well-formed Unicode"),
);

const JobMount = later(() =>
  z
    .object({
      name: z.string().min(1).max(80).describe("Name or id of a volume"),
      mount_path: MountPath,
      read_only: z
        .boolean()
        .optional()
        .describe("If true, every write fails. Default: false below /workspace, and true elsewhere"),
    })
    .refine(({ mount_path, read_only }) => read_only !== false || isInWorkspace(mount_path), {
      path: ["mount_path"],
      message: "must be below /workspace if read_only is false",
    }),
);

const Resources = later(() =>
  z
    .object({
      memory_mib: z
        .int()
        .min(16)
        .optional()
        .describe("Memory of all processes together, /tmp included. Default: sessions.memory_mib"),
      cpus: z.int().min(1).max(1024).nullable().optional().describe("Processors. Default: all, or custom_jobs.cpus"),
      disk_mib: z.int().min(1).optional().describe("Content of /workspace. Default: sessions.disk_mib"),
      gpu_memory_mib: z
        .int()
        .min(1)
        .nullable()
        .optional()
        .describe("Memory to lease on each GPU. Default: the whole GPU, so that nothing else uses it meanwhile"),
    })
    .describe("What the command of a custom job may use; it is killed beyond that"),
);

/** No defaults here: with source_job, a missing field is inherited from that job. */
export const CreateTrainingJob = later(() =>
  z
    .object({
      base_model: Label(300)
        .optional()
        .describe(
          "A model by id or name, the id or output name of a job, a checkpoint (ckpt_…), a path below the models folder, or a name of the hub (owner/repo:QUANT), which the job downloads first. An adapter is trained further. Required, except for custom",
        ),
      teacher_model: Label(300)
        .nullable()
        .optional()
        .describe(
          "A whole model on this server with the vocabulary of base_model, by id or name. Required for distill, and only for it",
        ),
      method: z.enum(JOB_METHODS).optional().describe("Required without source_job"),
      output_name: Label(100).optional().describe("Name of the model that the job makes"),
      dataset: DatasetRef.optional().describe("Required, except for custom"),
      dataset_id: DatasetRef.optional().describe("Another name of dataset"),
      eval_dataset: DatasetRef.nullable().optional().describe("Held-out rows for evaluation"),
      reward_source: Source.nullable()
        .optional()
        .describe("Reward code (only for grpo, rloo and distill, which can do without)"),
      reward_language: z.enum(LANGUAGES).nullable().optional().describe("Language of reward_source. Default: detected"),
      reward_functions: z
        .array(RewardRef)
        .max(16)
        .optional()
        .describe("In addition to reward_source, or instead of it. The id of an evaluator (evl_…) works too"),
      data_resolver: z
        .string()
        .min(1)
        .max(200)
        .nullable()
        .optional()
        .describe(
          "A stored data resolver: an id, a name (the newest version) or name@3. Instead of data_resolver_source",
        ),
      data_resolver_source: Source.nullable()
        .optional()
        .describe("Code with a function resolve(row), which maps each row of the datasets before the job starts"),
      data_resolver_language: z
        .enum(LANGUAGES)
        .nullable()
        .optional()
        .describe("Language of data_resolver_source. Default: detected"),
      hyperparameters: Hyperparameters.optional(),
      lora: Lora.nullable().optional(),
      gpu: z
        .object({ gpu_type: Label(64).optional(), gpu_count: z.int().min(1).max(64).default(1) })
        .optional()
        .describe(
          "Default: one device of this machine. With gpu_count 2 or more, each device trains a share of every step",
        ),
      provider: Label(64)
        .optional()
        .describe(
          "local, the kind of a region (ssh, slurm), or the name of a cloud. Default: the cheapest region that fits, this machine first",
        ),
      region: Label(80).optional().describe("local, or the id or the name of a region. Default: chosen like provider"),
      resume_from: z
        .string()
        .max(80)
        .nullable()
        .optional()
        .describe("A checkpoint (ckpt_…) whose weights the job starts from"),
      source_job: z
        .string()
        .max(80)
        .nullable()
        .optional()
        .describe("A job (job_…) to clone; fields of the request win"),
      code_artifact_id: z.string().max(80).nullable().optional().describe("The code of a custom job"),
      command: Command.nullable().optional().describe("The command of a custom job, run in the directory of the code"),
      credentials: Credentials.nullish().describe(
        "For a connected dataset. Kept in memory until the job has read it, never stored",
      ),
      secrets: z
        .array(z.string().min(1).max(128))
        .max(64)
        .optional()
        .describe("Names of secrets; environment variables of a custom job"),
      volumes: z
        .array(JobMount)
        .max(16)
        .optional()
        .describe("Of a custom job. Changes of a volume that is not read-only are written back when the command ends"),
      resources: Resources.optional(),
      network: z
        .enum(NETWORKS)
        .optional()
        .describe(
          "Of a custom job. guarded: connections through an HTTP proxy that checks every address; needs custom_jobs.network. Default: none",
        ),
      env: Env.optional().describe(
        "Environment variables of a custom job; stored encrypted, and only their names are shown",
      ),
      max_runtime_minutes: z.number().min(1).optional().describe("Default and maximum: training.max_runtime_minutes"),
      max_cost_usd: z.number().positive().max(1e9).nullable().optional(),
      priority: z.enum(["low", "normal", "high"]).optional(),
      checkpoint: z
        .object({
          save_steps: z
            .int()
            .min(0)
            .max(1e7)
            .optional()
            .describe("0 saves only at the end. Default: a tenth of all steps"),
          keep_last: z
            .int()
            .min(1)
            .max(1000)
            .optional()
            .describe("Newest checkpoints to keep, besides the best one. Default: 3"),
        })
        .optional(),
      publish: z.boolean().optional(),
      hub_repo: HubRepo.nullable()
        .optional()
        .describe("owner/name on the hub: the result is pushed there when the job completes, with a model card"),
      hub_variant: z
        .enum(HUB_VARIANTS)
        .nullable()
        .optional()
        .describe("adapter (PEFT), merged (safetensors) or gguf. Default: adapter for LoRA, merged for full weights"),
      hub_private: z.boolean().optional().describe("A new repository is visible to its owner alone. Default: true"),
      seed: z.int().min(0).max(MAX_SEED).optional().describe("Default: random, and recorded in the job"),
      metadata: Metadata.optional(),
      ...arrangedFields(),
      dry_run: z.boolean().optional().describe("Only validate: answers like POST /v1/training_jobs/validate"),
    })
    .refine(({ dataset, dataset_id }) => !dataset || !dataset_id || dataset === dataset_id, {
      path: ["dataset_id"],
      message: "differs from dataset: send only one of them",
    })
    .meta({ id: "CreateTrainingJob" }),
);
export type CreateTrainingJob = z.infer<typeof CreateTrainingJob>;
