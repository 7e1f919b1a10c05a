/** `GET /v1/training_jobs/{id}/model`: which file is meant, and where it can be fetched. */
import { and, eq } from "drizzle-orm";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { fileResponse } from "../../../http/answer/file_response.ts";
import { AppError } from "../../../lib/errors.ts";
import { DateTime, later } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { durable, write } from "../../../platform/db/db.ts";
import { LostKeyError } from "../../../platform/storage/storage.ts";
import * as signed from "../../signed_urls/service.ts";
import { nextChange } from "../state/change_signals.ts";
import { keptOf } from "../state/checkpoint_files.ts";
import {
  type CheckpointRow,
  type ExportRow,
  type JobRow,
  trainingCheckpoints,
  trainingExports,
  VARIANTS,
} from "../table.ts";
import { find, type Wanted, want } from "./exports.ts";

const MERGED = ["F16", "BF16", "F32", "Q8_0"] as const;
const GGUF = ["Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "F16", "BF16", "F32"] as const;
/** The first is what one gets who does not say. */
const QUANTIZATIONS: Record<ExportRow["variant"], readonly string[]> = {
  adapter: [],
  peft: [],
  files: [],
  merged: MERGED,
  gguf: GGUF,
};

export const ModelQuery = z.object({
  variant: z.enum(VARIANTS).optional().describe("Default: adapter for LoRA, merged for full weights, files for custom"),
  quantization: z
    .string()
    .max(20)
    .optional()
    .describe(`Of merged: ${MERGED.join(", ")}; of gguf: ${GGUF.join(", ")}`),
  checkpoint: z
    .string()
    .max(80)
    .optional()
    .describe("An id, best or latest. Default: the latest, which is what a deployment of the job serves"),
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
      url: z.string().nullable().describe("Needs no key; null while it is being prepared"),
      expires_at: DateTime.nullable(),
      file_name: z.string().nullable(),
      size_bytes: z.int().nullable(),
      sha256: z.string().nullable(),
      model_id: z.string().nullable().describe("What it is in the registry of models"),
    })
    .meta({ id: "ModelDownload" }),
);
export type ModelDownload = z.infer<typeof ModelDownload>;

const refused = (message: string, param: string) => new AppError("schema", `${param}: ${message}`, { param });

function wantedOf(job: JobRow, query: ModelQuery): Wanted {
  const { variant = job.method === "custom" ? "files" : job.lora ? "adapter" : "merged" } = query;
  if ((variant === "files") !== (job.method === "custom"))
    throw refused(
      `a job of method ${job.method} has ${job.method === "custom" ? "files only" : "no files"}`,
      "variant",
    );
  if (!job.lora && (variant === "adapter" || variant === "peft"))
    throw refused("this job trained all weights and has no adapter: ask for merged or gguf", "variant");
  const known = QUANTIZATIONS[variant];
  const quantization = query.quantization?.toUpperCase() ?? known[0] ?? "";
  if (quantization !== "" && known.length === 0) throw refused(`${variant} has none to choose`, "quantization");
  if (quantization !== "" && !known.includes(quantization))
    throw refused(`of ${variant} must be one of ${known.join(", ")}`, "quantization");
  return { variant, quantization };
}

function checkpointOf(ctx: Ctx, job: JobRow, name: string | undefined): CheckpointRow {
  const kept = keptOf(ctx.db, job.id);
  const best = name === "best" ? kept.find(({ id }) => id === job.bestCheckpointId) : undefined;
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

const PATIENCE_MS = 2_000; // what is made at once is answered at once

/** Asks for the file; where it is not there yet the loop makes it. */
export async function download(ctx: Ctx, asker: signed.Call, job: JobRow, query: ModelQuery): Promise<ModelDownload> {
  const wanted = wantedOf(job, query);
  if (wanted.variant === "files") return presented(ctx, asker, { job, row: mustHaveFiles(ctx, job, wanted) });
  const checkpoint = checkpointOf(ctx, job, query.checkpoint);
  const known = find(ctx.db, checkpoint.id, wanted);
  if (!known && checkpoint.deletedAt !== null)
    throw new AppError("resource_not_found", `The files of ${checkpoint.id} are gone: ask for a later checkpoint`, {
      param: "checkpoint",
    });
  const row = known?.status === "ready" ? known : write(ctx.db, (tx) => want(ctx, tx, checkpoint, wanted));
  await durable(ctx.db);
  const made = row.status === "preparing" ? await patiently(ctx, row) : row;
  if (made.status === "failed")
    throw new AppError("worker_failed", `The ${wanted.variant} file could not be made: ${made.error}`, {
      retryAfterSeconds: 30,
    });
  return presented(ctx, asker, { job, row: made, checkpoint });
}

async function patiently(ctx: Ctx, row: ExportRow): Promise<ExportRow> {
  ctx.wake("training_jobs.reconcile");
  const until = ctx.clock.now() + PATIENCE_MS;
  const over = AbortSignal.timeout(PATIENCE_MS);
  for (;;) {
    const fresh = ctx.db.select().from(trainingExports).where(eq(trainingExports.id, row.id)).get() ?? row;
    if (fresh.status !== "preparing" || over.aborted || ctx.clock.now() >= until || ctx.closing.aborted) return fresh;
    await nextChange(ctx, row.jobId, AbortSignal.any([over, ctx.closing]));
  }
}

function mustHaveFiles(ctx: Ctx, job: JobRow, wanted: Wanted): ExportRow {
  const row = find(ctx.db, job.id, wanted);
  if (row) return row;
  const message = `Training job ${job.id} is ${job.status} and has left no files in /workspace/output`;
  throw new AppError("unsupported_state", message, { param: "id" });
}

type Shown = { job: JobRow; row: ExportRow; checkpoint?: CheckpointRow };

async function presented(ctx: Ctx, asker: signed.Call, { job, row, checkpoint }: Shown): Promise<ModelDownload> {
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
    url: ready ? (direct?.url ?? signed.addressFor(ctx, asker, useOf(row), expiresAt)) : null,
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

/** Without a key: the address itself is the permission. */
export async function send(ctx: Ctx, request: Request, at: { jobId: string; exportId: string }): Promise<Response> {
  const mine = and(eq(trainingExports.id, at.exportId), eq(trainingExports.jobId, at.jobId));
  const row = ctx.db.select().from(trainingExports).where(mine).get();
  signed.admit(ctx, request, row && useOf(row));
  const { storageKey, sizeBytes, sha256, fileName, updatedAt } = row as ExportRow; // nothing is signed for one that is not there
  if (storageKey === null || sizeBytes === null || sha256 === null)
    throw new AppError("resource_not_found", "The file is gone: ask for it again", { param: "id" });
  const file = { name: fileName ?? at.exportId, contentType: "application/octet-stream", sizeBytes, sha256, updatedAt };
  const answer = await fileResponse(request, { ...file, open: (range) => ctx.storage.get(storageKey, range) });
  if (!answer) throw new LostKeyError(storageKey);
  return answer;
}
