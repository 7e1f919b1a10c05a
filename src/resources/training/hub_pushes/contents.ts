/** The files of a push: the file of a model, or the files inside an export of a job's checkpoint. */
import { desc, eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { tarIndex } from "../../../lib/archive/tar_index.ts";
import { AppError } from "../../../lib/errors.ts";
import { VERSION } from "../../../lib/version.ts";
import { write } from "../../../platform/db/db.ts";
import { LostKeyError } from "../../../platform/storage/storage.ts";
import { HubError } from "../../serving/models/hub/hub.ts";
import { parseHubName } from "../../serving/models/hub/name.ts";
import * as models from "../../serving/models/service.ts";
import type { ModelRow } from "../../serving/models/table.ts";
import { type ExportKind, requestExport } from "../training_jobs/artifacts/exports.ts";
import { currentJob } from "../training_jobs/state/rows.ts";
import { type ExportRow, type JobRow, trainingCheckpoints, trainingMetrics } from "../training_jobs/table.ts";
import { type CardFacts, cardOf } from "./card.ts";
import { modelFile } from "./model_file.ts";
import type { PushRow } from "./table.ts";

/** `disk`: the content is this file. Otherwise `open` reads a range of it. */
export type PushedFile = {
  path: string;
  size: number;
  disk?: string;
  open: (offset: number, bytes: number) => Promise<ReadableStream<Uint8Array>>;
};

export type Contents = { waits: true } | { files: PushedFile[]; card: string };

const EXPORTED: Record<Exclude<PushRow["variant"], "model">, ExportRow["variant"]> = {
  adapter: "peft",
  merged: "huggingface",
  gguf: "gguf",
};

/** The kind of export that a push is made of. */
export const exportOf = ({ variant, quantization }: Pick<PushRow, "variant" | "quantization">): ExportKind => ({
  variant: EXPORTED[variant as keyof typeof EXPORTED],
  quantization,
});

/** Throws HubError if the content is gone or cannot be made. */
export async function contentsOf(ctx: Ctx, row: PushRow): Promise<Contents> {
  if (row.variant === "model") return modelContents(ctx, row);
  const job = row.jobId === null ? undefined : currentJob(ctx.db, row.jobId);
  const checkpoint = ctx.db
    .select()
    .from(trainingCheckpoints)
    .where(eq(trainingCheckpoints.id, row.checkpointId ?? ""))
    .get();
  if (!job || !checkpoint) throw new HubError("The training job of this push was deleted", false);
  const made = attempt(() => write(ctx.db, (tx) => requestExport(ctx, tx, checkpoint, exportOf(row))));
  if (made.status === "preparing") {
    ctx.wake("training_jobs.reconcile");
    return { waits: true };
  }
  if (made.status === "failed" || made.storageKey === null)
    throw new HubError(`The ${row.variant} could not be made: ${made.error ?? "its file was deleted"}`, false);
  const card = cardOf(factsOf(ctx, row, job));
  const files = await (made.variant === "gguf" ? [wholeFile(ctx, made)] : archived(ctx, made));
  return { files, card };
}

function attempt<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw error instanceof AppError ? new HubError(error.message, error.status >= 429) : error;
  }
}

const reader =
  (ctx: Ctx, key: string, start = 0) =>
  async (offset: number, bytes: number) => {
    const opened = await ctx.storage.get(key, { offset: start + offset, length: bytes });
    if (!opened) throw new LostKeyError(key);
    return opened.stream;
  };

const wholeFile = (ctx: Ctx, { storageKey, fileName, id, sizeBytes }: ExportRow): PushedFile => ({
  path: fileName ?? `${id}.gguf`,
  size: sizeBytes ?? 0,
  open: reader(ctx, storageKey ?? ""),
});

async function archived(ctx: Ctx, { storageKey, sizeBytes }: ExportRow): Promise<PushedFile[]> {
  const key = storageKey ?? "";
  const open = reader(ctx, key);
  const read = async (offset: number, bytes: number) => await new Response(await open(offset, bytes)).bytes();
  const spans = await tarIndex(read, sizeBytes ?? 0);
  return spans
    .filter(({ name }) => lastPart(name) !== "README.md") // the card is ours
    .map(({ name, offset, size }) => ({
      path: lastPart(name),
      size,
      open: reader(ctx, key, offset),
    }));
}

function modelContents(ctx: Ctx, row: PushRow): Contents {
  const model = attempt(() => models.mustGet(ctx, row.workspaceId, row.modelId ?? ""));
  if (model.status !== "ready") throw new HubError(`The model ${model.name} is ${model.status}`, false);
  const file = modelFile(models.pathOf(ctx, model));
  if (!file) throw new HubError(`The file of the model ${model.name} does not exist any more`, false);
  const job = model.jobId === null ? undefined : currentJob(ctx.db, model.jobId);
  const card = cardOf(factsOf(ctx, row, job, model));
  return { files: [{ path: fileNameOf(model), ...file }], card };
}

/** The name of a file inside an archive or a repository. */
const lastPart = (path: string) => path.slice(path.lastIndexOf("/") + 1);

const fileNameOf = ({ name, hubFile }: ModelRow) => {
  const stem = lastPart(hubFile ?? name).replace(/\.gguf$/i, "");
  return `${stem.replaceAll(/[^\w.-]+/g, "-").replace(/^[-.]+/, "") || "model"}.gguf`;
};

const CURVE_ROWS = 12;

function factsOf(ctx: Ctx, row: PushRow, job: JobRow | undefined, model?: ModelRow): CardFacts {
  const base = job?.baseModel ?? model?.baseModel ?? null;
  const { repo, variant, quantization } = row;
  return {
    repo,
    variant,
    quantization: quantization || (model?.quantization ?? ""),
    base,
    hubBase: (base && parseHubName(base)?.repo) || null,
    job: job ? jobFacts(job) : null,
    curve: job ? curveOf(ctx, job.id) : [],
  };
}

const jobFacts = (job: JobRow): NonNullable<CardFacts["job"]> => ({
  id: job.id,
  method: job.method,
  steps: job.step,
  totalSteps: job.totalSteps,
  seed: job.seed,
  dataset: job.datasetId === null ? null : `${job.datasetId}@snap-${job.snapshotNumber ?? 0}`,
  rows: job.numRows,
  rewards: job.rewards.parts.map(({ name, weight }) => ({ name, weight })),
  lora: job.lora,
  hyperparameters: job.hyperparameters,
  hashes: {
    "Base model (sha256)": job.lock.base_model_sha256,
    "Dataset (sha256)": job.lock.snapshot_sha256,
    "Reward (sha256)": job.lock.reward_sha256,
  },
  version: job.lock.app_version || VERSION,
});

/** Some steps of the run, evenly spaced, with the last one. */
function curveOf(ctx: Ctx, jobId: string): CardFacts["curve"] {
  const { step } = trainingMetrics;
  const ofJob = eq(trainingMetrics.jobId, jobId);
  const last = ctx.db.select({ step }).from(trainingMetrics).where(ofJob).orderBy(desc(step)).limit(1).get();
  if (!last) return [];
  const every = Math.max(1, Math.ceil(last.step / CURVE_ROWS));
  return ctx.db
    .select({ step, values: trainingMetrics.values })
    .from(trainingMetrics)
    .where(sql`${ofJob} AND (${step} % ${every} = 0 OR ${step} IN (1, ${last.step}))`)
    .orderBy(step)
    .limit(CURVE_ROWS + 2)
    .all();
}
