import { z } from "zod";
import { Label, later } from "../../../lib/schema.ts";
import { MAX_SEED } from "../../training/training_jobs/admission/create_schema.ts";
import { Grader } from "./graders.ts";

const auto = <S extends z.ZodType>(schema: S) => z.union([z.literal("auto"), schema]).optional();
const shared = () => ({
  n_epochs: auto(z.number().positive().max(10_000)),
  batch_size: auto(z.int().min(1).max(4096)),
  learning_rate_multiplier: auto(z.number().positive().max(1_000)),
});
const Hyperparameters = later(() => z.strictObject(shared()));
const DpoHyperparameters = later(() => z.strictObject({ ...shared(), beta: auto(z.number().positive().max(2)) }));

/** Taken, so that a request of another server works. The answer names them in its `warning` header. */
export const NO_EFFECT = ["compute_multiplier", "eval_interval", "eval_samples", "reasoning_effort"] as const;
const ReinforcementHyperparameters = later(() =>
  z.strictObject({
    ...shared(),
    ...(Object.fromEntries(NO_EFFECT.map((name) => [name, z.unknown().optional()])) as Record<
      (typeof NO_EFFECT)[number],
      z.ZodOptional<z.ZodUnknown>
    >),
  }),
);

const Supervised = later(() => z.object({ hyperparameters: Hyperparameters.optional() }));
const Dpo = later(() => z.object({ hyperparameters: DpoHyperparameters.optional() }));
const Reinforcement = later(() =>
  z.object({ grader: Grader, hyperparameters: ReinforcementHyperparameters.optional() }),
);

export const Method = later(() =>
  z.discriminatedUnion("type", [
    z.object({ type: z.literal("supervised"), supervised: Supervised.optional() }),
    z.object({ type: z.literal("dpo"), dpo: Dpo.optional() }),
    z.object({ type: z.literal("reinforcement"), reinforcement: Reinforcement }),
  ]),
);
export type Method = z.infer<typeof Method>;

export const Metadata = later(() =>
  z
    .record(z.string().max(64), z.string().max(512))
    .refine((given) => Object.keys(given).length <= 16, "takes at most 16 keys"),
);

export const CreateFineTuningJob = later(() =>
  z
    .object({
      model: Label(300).describe("A base model, as in POST /v1/training_jobs"),
      training_file: z.string().describe("A file with the purpose fine-tune"),
      validation_file: z.string().nullish().describe("Held-out rows"),
      method: Method.optional().describe("Default: supervised"),
      hyperparameters: Hyperparameters.optional().describe("The older place for those of the supervised method"),
      suffix: z
        .string()
        .regex(/^[\w.-]{1,64}$/, "takes 1 to 64 letters, digits, dots, dashes and underscores")
        .nullish()
        .describe("Part of the name of the result"),
      seed: z.int().min(0).max(MAX_SEED).nullish(),
      metadata: Metadata.nullish(),
    })
    .meta({ id: "CreateFineTuningJob" }),
);
export type CreateFineTuningJob = z.infer<typeof CreateFineTuningJob>;

const Shown = later(() => z.union([z.literal("auto"), z.number()]));
const Time = z.int().nullable().describe("Unix seconds");
export const STATUSES = ["queued", "running", "paused", "succeeded", "failed", "cancelled"] as const;

export const FineTuningJob = later(() =>
  z
    .object({
      id: z.string().describe("Also the id of the training job"),
      object: z.literal("fine_tuning.job"),
      created_at: z.int().describe("Unix seconds"),
      finished_at: Time,
      estimated_finish: Time,
      model: z.string(),
      fine_tuned_model: z.string().nullable().describe("The name of the deployment that serves the result"),
      organization_id: z.string(),
      status: z.enum(STATUSES),
      method: Method,
      hyperparameters: z.object({ n_epochs: Shown, batch_size: Shown, learning_rate_multiplier: Shown }),
      training_file: z.string(),
      validation_file: z.string().nullable(),
      result_files: z.array(z.string()),
      trained_tokens: z.int().nullable(),
      error: z.object({ code: z.string(), message: z.string(), param: z.string().nullable() }).nullable(),
      seed: z.int(),
      metadata: z.record(z.string(), z.string()),
      integrations: z.array(z.never()),
    })
    .meta({ id: "FineTuningJob" }),
);
export type FineTuningJob = z.infer<typeof FineTuningJob>;

export const FineTuningEvent = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("fine_tuning.job.event"),
      created_at: z.int().describe("Unix seconds"),
      level: z.enum(["info", "warn", "error"]),
      message: z.string(),
      type: z.literal("message"),
      data: z.record(z.string(), z.unknown()),
    })
    .meta({ id: "FineTuningEvent" }),
);

export const FineTuningCheckpoint = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("fine_tuning.job.checkpoint"),
      created_at: z.int().describe("Unix seconds"),
      fine_tuning_job_id: z.string(),
      fine_tuned_model_checkpoint: z.string().describe("POST /v1/deployments takes it as its model"),
      step_number: z.int(),
      metrics: z.record(z.string(), z.number()),
    })
    .meta({ id: "FineTuningCheckpoint" }),
);
