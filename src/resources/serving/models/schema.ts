import { z } from "zod";
import { DateTime, later } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { SECOND_MS } from "../../../lib/units.ts";
import { type ModelRow, SOURCES, STATUSES } from "./table.ts";

/** `owned_by` of models of the installation. */
const OWNERS: Partial<Record<ModelRow["source"], string>> = { builtin: "verk", folder: "local" };

export const Model = later(() =>
  z
    .object({
      id: z.string().describe("The name of the deployment in the list of what runs; else the id of the model"),
      object: z.literal("model"),
      created: z.int().describe("Unix seconds"),
      owned_by: z.string().describe("verk (built in), local (in the models folder), or the id of the workspace"),
      name: z.string(),
      status: z.enum(STATUSES),
      source: z.enum(SOURCES),
      base_model: z.string().nullable(),
      base_model_id: z.string().nullable().describe("The model that it was made from; for an adapter, its base model"),
      format: z.string(),
      type: z.enum(["model", "adapter"]).nullable(),
      architecture: z.string().nullable(),
      parameters: z.int().nullable(),
      context_length: z.int().nullable().describe("Of the deployment in the list of what runs; else of the model"),
      quantization: z.string().nullable(),
      has_chat_template: z.boolean().nullable(),
      size_bytes: z.int().nullable(),
      sha256: z.string().nullable(),
      job_id: z.string().nullable(),
      checkpoint_id: z.string().nullable().describe("Checkpoint of the training job"),
      checkpoint_step: z.int().nullable(),
      file: z.string().nullable().describe("File in the repository of the hub"),
      progress: z.number().nullable().describe("0 to 1 while the file is downloaded, checked or quantized"),
      error: z.string().nullable(),
      metadata: z.record(z.string(), z.string()),
      deployment: z
        .object({ id: z.string(), status: z.string(), parked: z.boolean() })
        .optional()
        .describe("The deployment that serves the model; absent in the registry"),
      agent: z.object({ id: z.string(), version: z.int() }).optional().describe("The agent, if id is the name of one"),
      memory_bytes: z
        .int()
        .nullable()
        .optional()
        .describe("With registry and context_length: an estimate at that context"),
      served_by: z
        .array(z.object({ id: z.string(), name: z.string() }))
        .optional()
        .describe("In the list of the registry: the active deployments that serve the model"),
      created_at: DateTime,
      updated_at: DateTime,
    })
    .meta({ id: "Model" }),
);
export type Model = z.infer<typeof Model>;

export const present = (row: ModelRow): Model => ({
  id: row.id,
  object: "model",
  created: Math.floor(row.createdAt / 1000),
  owned_by: row.workspaceId ?? OWNERS[row.source] ?? "local",
  name: row.name,
  status: row.status,
  source: row.source,
  base_model: row.baseModel,
  base_model_id: row.baseModelId,
  format: row.format,
  type: row.shape?.type ?? null,
  architecture: row.architecture,
  parameters: row.parameters,
  context_length: row.contextLength,
  quantization: row.quantization,
  has_chat_template: row.shape?.has_chat_template ?? null,
  size_bytes: row.sizeBytes,
  sha256: row.sha256,
  job_id: row.jobId,
  checkpoint_id: row.checkpointId,
  checkpoint_step: row.checkpointStep,
  file: row.hubFile,
  progress: row.progress,
  error: row.error,
  metadata: row.metadata,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});

/** A model that requests can use, as Anthropic lists it. */
export const AnthropicModel = later(() =>
  z
    .object({
      type: z.literal("model"),
      id: z.string(),
      display_name: z.string(),
      created_at: DateTime,
      max_input_tokens: z.int().nullable(),
      max_tokens: z.int().nullable(),
    })
    .meta({ id: "AnthropicModel" }),
);

export const presentAnthropic = ({ id, created, context_length }: Model): z.infer<typeof AnthropicModel> => ({
  type: "model",
  id,
  display_name: id,
  created_at: isoTime(created * SECOND_MS),
  max_input_tokens: context_length,
  max_tokens: context_length,
});
