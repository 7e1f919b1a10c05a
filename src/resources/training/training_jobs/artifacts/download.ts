/** `GET /v1/training_jobs/{id}/model`: chooses the file and returns its URL. */
import { and, eq } from "drizzle-orm";
import { z } from "zod";
import type { Ctx } from "../../../../context.ts";
import { fileResponse } from "../../../../http/answer/file_response.ts";
import { AppError } from "../../../../lib/errors.ts";
import { DateTime, later } from "../../../../lib/schema.ts";
import { isoTime } from "../../../../lib/time.ts";
import { SECOND_MS } from "../../../../lib/units.ts";
import { durable, write } from "../../../../platform/db/db.ts";
import { LostKeyError } from "../../../../platform/storage/storage.ts";
import * as signed from "../../../data/signed_urls/service.ts";
import { takesBest } from "../policy.ts";
import { keptCheckpoints } from "../state/checkpoint_files.ts";
import {
  type CheckpointRow,
  type ExportRow,
  type JobRow,
  trainingCheckpoints,
  trainingExports,
  VARIANTS,
} from "../table.ts";
import { type ExportKind, find, requestExport } from "./exports.ts";

const MERGED = ["F16", "BF16", "F32", "Q8_0"] as const;
const HUGGINGFACE = ["BF16", "F16", "F32"] as const;
const GGUF = ["Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "F16", "BF16", "F32"] as const;
/** The first one is the default. */
const QUANTIZATIONS: Record<ExportRow["variant"], readonly string[]> = {
  adapter: [],
  peft: [],
  files: [],
  huggingface: HUGGINGFACE,
  merged: MERGED,
  gguf: GGUF,
};

export const ModelQuery = z.object({
  variant: z
    .enum(VARIANTS)
    .optional()
    .describe(
      "Default: adapter for LoRA, merged for full weights, files for custom. huggingface: an archive of config, tokenizer and merged safetensors, for transformers",
    ),
  quantization: z
    .string()
    .max(20)
    .optional()
    .describe(
      `For merged: ${MERGED.join(", ")}; for gguf: ${GGUF.join(", ")}; for huggingface: ${HUGGINGFACE.join(", ")}`,
    ),
  checkpoint: z
    .string()
    .max(80)
    .optional()
    .describe("A checkpoint's id, best or latest. Default: latest, which a deployment of the job serves too"),
});
export type ModelQuery = z.infer<typeof ModelQuery>;

export const ModelDownload = later(() =>
  z
    .object({
      object: z.literal("model_download"),
      job_id: z.string(),
      checkpoint_id: z.string().nullable().describe("Null for custom"),
      step: z.int().nullable(),
      variant: z.enum(VARIANTS),
      quantization: z.string().nullable(),
      status: z.enum(["ready", "preparing"]),
      url: z.string().nullable().describe("Needs no API key; null while the file is being made"),
      expires_at: DateTime.nullable(),
      file_name: z.string().nullable(),
      size_bytes: z.int().nullable(),
      sha256: z.string().nullable(),
      model_id: z.string().nullable().describe("The model that the file became"),
    })
    .meta({ id: "ModelDownload" }),
);
export type ModelDownload = z.infer<typeof ModelDownload>;

const invalid = (message: string, param: string) => new AppError("schema", `${param}: ${message}`, { param });

export function kindOf(job: JobRow, query: ModelQuery): ExportKind {
  const { variant = job.method === "custom" ? "files" : job.lora ? "adapter" : "merged" } = query;
  if ((variant === "files") !== (job.method === "custom"))
    throw invalid(
      job.method === "custom" ? "must be files for a custom job" : "must not be files: only custom jobs have them",
      "variant",
    );
  if (!job.lora && (variant === "adapter" || variant === "peft"))
    throw invalid("this job trained all weights and has no adapter: use merged or gguf", "variant");
  const choices = QUANTIZATIONS[variant];
  const quantization = query.quantization?.toUpperCase() ?? choices[0] ?? "";
  if (quantization !== "" && choices.length === 0)
    throw invalid(`leave it out: ${variant} has no quantizations`, "quantization");
  if (quantization !== "" && !choices.includes(quantization))
    throw invalid(`for ${variant} must be one of ${choices.join(", ")}`, "quantization");
  return { variant, quantization };
}

export function checkpointOf(ctx: Ctx, job: JobRow, name: string | undefined): CheckpointRow {
  const kept = keptCheckpoints(ctx.db, job.id);
  const isBest = name === "best" || (name === undefined && takesBest(job));
  const best = isBest ? kept.find(({ id }) => id === job.bestCheckpointId) : undefined;
  const named = best ?? kept.at(-1);
  if (name === undefined || name === "best" || name === "latest") {
    if (named) return named;
    throw new AppError("unsupported_state", `Training job ${job.id} is ${job.status} and has no checkpoint`, {
      param: "id",
    });
  }
  const row = ctx.db
    .select()
    .from(trainingCheckpoints)
    .where(and(eq(trainingCheckpoints.id, name), eq(trainingCheckpoints.jobId, job.id)))
    .get();
  if (!row) throw new AppError("resource_not_found", `No checkpoint ${name.slice(0, 80)}`, { param: "checkpoint" });
  return row;
}

const WAIT_MS = 2 * SECOND_MS; // an adapter is ready within this time

/** Requests the file; the loop makes it if it does not exist yet. */
export async function download(ctx: Ctx, caller: signed.Call, job: JobRow, query: ModelQuery): Promise<ModelDownload> {
  const kind = kindOf(job, query);
  if (kind.variant === "files") return present(ctx, caller, { job, row: mustHaveFiles(ctx, job, kind) });
  const checkpoint = checkpointOf(ctx, job, query.checkpoint);
  const existing = find(ctx.db, checkpoint.id, kind);
  if (!existing && checkpoint.deletedAt !== null)
    throw new AppError("resource_not_found", `The files of ${checkpoint.id} were deleted: choose a later checkpoint`, {
      param: "checkpoint",
    });
  const row = existing?.status === "ready" ? existing : write(ctx.db, (tx) => requestExport(ctx, tx, checkpoint, kind));
  await durable(ctx.db);
  const exportRow = row.status === "preparing" ? await waitForExport(ctx, row) : row;
  if (exportRow.status === "failed")
    throw new AppError("worker_failed", `The ${kind.variant} file could not be made: ${exportRow.error}`, {
      retryAfterSeconds: 30,
    });
  return present(ctx, caller, { job, row: exportRow, checkpoint });
}

async function waitForExport(ctx: Ctx, row: ExportRow): Promise<ExportRow> {
  ctx.wake("training_jobs.reconcile");
  const until = ctx.clock.now() + WAIT_MS;
  const over = AbortSignal.timeout(WAIT_MS);
  for (;;) {
    const fresh = ctx.db.select().from(trainingExports).where(eq(trainingExports.id, row.id)).get() ?? row;
    if (fresh.status !== "preparing" || over.aborted || ctx.clock.now() >= until || ctx.closing.aborted) return fresh;
    await ctx.state.trainingJobs.changes.next(ctx.clock, row.jobId, AbortSignal.any([over, ctx.closing]));
  }
}

function mustHaveFiles(ctx: Ctx, job: JobRow, kind: ExportKind): ExportRow {
  const row = find(ctx.db, job.id, kind);
  if (row) return row;
  const message = `Training job ${job.id} is ${job.status} and has no files in /workspace/output`;
  throw new AppError("unsupported_state", message, { param: "id" });
}

type Download = { job: JobRow; row: ExportRow; checkpoint?: CheckpointRow };

async function present(ctx: Ctx, caller: signed.Call, { job, row, checkpoint }: Download): Promise<ModelDownload> {
  const expiresAt = signed.expiryAfter(ctx, undefined);
  const ready = row.status === "ready" && row.storageKey !== null;
  const direct = ready
    ? await ctx.storage.presign?.get(row.storageKey ?? "", {
        expiresSeconds: ctx.config.volumes.url_seconds,
        filename: row.fileName ?? row.id,
      })
    : undefined;
  return {
    object: "model_download",
    job_id: job.id,
    checkpoint_id: checkpoint?.id ?? null,
    step: checkpoint?.step ?? null,
    variant: row.variant,
    quantization: row.quantization || null,
    status: ready ? "ready" : "preparing",
    url: ready ? (direct?.url ?? signed.addressFor(ctx, caller, useOf(row), expiresAt)) : null,
    expires_at: ready ? isoTime(expiresAt) : null,
    file_name: row.fileName,
    size_bytes: row.sizeBytes,
    sha256: row.sha256,
    model_id: row.modelId,
  };
}

const useOf = ({ jobId, id }: ExportRow) => ({
  method: "GET" as const,
  path: signed.signedPath("v1", "training_jobs", jobId, "exports", id),
  sizeBytes: null,
  sha256: null,
});

/** Needs no API key: the signed URL is the permission. */
export async function send(ctx: Ctx, request: Request, at: { jobId: string; exportId: string }): Promise<Response> {
  const isExport = and(eq(trainingExports.id, at.exportId), eq(trainingExports.jobId, at.jobId));
  const row = ctx.db.select().from(trainingExports).where(isExport).get();
  signed.admit(ctx, request, row && useOf(row));
  const { storageKey, sizeBytes, sha256, fileName, updatedAt } = row as ExportRow; // admit() throws without a row
  if (storageKey === null || sizeBytes === null || sha256 === null)
    throw new AppError(
      "resource_not_found",
      "The file was deleted: request it again with GET /v1/training_jobs/{id}/model",
      { param: "id" },
    );
  const file = { name: fileName ?? at.exportId, contentType: "application/octet-stream", sizeBytes, sha256, updatedAt };
  const answer = await fileResponse(request, { ...file, open: (range) => ctx.storage.get(storageKey, range) });
  if (!answer) throw new LostKeyError(storageKey);
  return answer;
}
