import { z } from "zod";
import { DateTime, isoOrNull, Label, later } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { HubRepo } from "../training_jobs/schema.ts";
import { PUSH_VARIANTS, type PushRow, STATUSES } from "./table.ts";

export const CreatePush = later(() =>
  z
    .object({
      repo: HubRepo.describe("owner/name on the hub; made if it does not exist"),
      variant: z
        .enum(PUSH_VARIANTS)
        .optional()
        .describe(
          "adapter (PEFT), merged (safetensors) or gguf: made from the checkpoint of the job. model: the file of the model as it is. Default: adapter for a LoRA job, merged for full weights, model for all other models",
        ),
      quantization: Label(20).optional().describe("For merged and gguf, as in GET /v1/training_jobs/{id}/model"),
      checkpoint: Label(80).optional().describe("A checkpoint's id, best or latest; of a job"),
      private: z.boolean().default(true).describe("A new repository is visible to its owner alone"),
    })
    .meta({ id: "CreateHubPush" }),
);
export type CreatePush = z.infer<typeof CreatePush>;

export const HubPush = later(() =>
  z
    .object({
      object: z.literal("hub_push"),
      id: z.string(),
      repo: z.string(),
      model_id: z.string().nullable(),
      job_id: z.string().nullable(),
      checkpoint_id: z.string().nullable(),
      variant: z.enum(PUSH_VARIANTS),
      quantization: z.string().nullable(),
      private: z.boolean(),
      status: z.enum(STATUSES).describe("preparing: the files are being made"),
      progress: z.number().min(0).max(1),
      bytes_total: z.int().describe("0 while it is unknown"),
      bytes_done: z.int(),
      url: z.string().nullable().describe("The repository, once the push has completed"),
      commit: z.string().nullable(),
      error: z.string().nullable().describe("Why it failed, or why the last try failed"),
      created_at: DateTime,
      completed_at: DateTime.nullable(),
    })
    .meta({ id: "HubPush" }),
);
export type HubPush = z.infer<typeof HubPush>;

export const present = (row: PushRow): HubPush => ({
  object: "hub_push",
  id: row.id,
  repo: row.repo,
  model_id: row.modelId,
  job_id: row.jobId,
  checkpoint_id: row.checkpointId,
  variant: row.variant,
  quantization: row.quantization || null,
  private: row.isPrivate,
  status: row.status,
  progress: row.status === "completed" ? 1 : row.bytesTotal === 0 ? 0 : Math.min(1, row.bytesDone / row.bytesTotal),
  bytes_total: row.bytesTotal,
  bytes_done: row.bytesDone,
  url: row.url,
  commit: row.commitId,
  error: row.error,
  created_at: isoTime(row.createdAt),
  completed_at: isoOrNull(row.completedAt),
});
