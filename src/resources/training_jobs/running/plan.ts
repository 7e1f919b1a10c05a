/** From a job's row to what its trainer is told. */

import { availableParallelism } from "node:os";
import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { pathForWorker } from "../../../sandbox/files/foreign_dir.ts";
import type { TrainPlan, TrainTask } from "../../../workers/protocol_trainer.ts";
import * as datasets from "../../datasets/service.ts";
import * as rowFiles from "../../datasets/stream/files.ts";
import * as snapshots from "../../datasets/stream/snapshots.ts";
import * as models from "../../models/service.ts";
import type { ModelRow } from "../../models/table.ts";
import { checkpointDir, placesOf } from "../state/paths.ts";
import { type CheckpointRow, type JobError, type JobRow, trainingCheckpoints } from "../table.ts";

const SAMPLES_PER_STEP = 8;

/** Why a job cannot begin, ever: what it failed with. */
export class Unstartable extends Error {
  constructor(readonly error: JobError) {
    super(error.message);
    this.name = "Unstartable";
  }
}

const unstartable = (code: JobError["code"], message: string, param: string) =>
  new Unstartable({ code, message, param });

type Rows = TrainPlan["rows"];

/** `number` null: as they are now, which is for a preview alone. */
export function rowsOf(ctx: Ctx, job: JobRow, id: string, number: number | null, param = "/dataset"): Rows {
  const dataset = datasets.find(ctx, job.workspaceId, id);
  const snapshot = number === null || !dataset ? dataset : snapshots.named(ctx, dataset, `@snap-${number}`);
  if (!dataset || !snapshot) throw unstartable("dataset_error", `The dataset ${id} is gone`, param);
  if (!dataset.format) throw unstartable("dataset_error", `The dataset ${id} has no rows`, param);
  return { path: rowFiles.pathFor(ctx, dataset, number ?? 0), head_row: snapshot.headRow, format: dataset.format };
}

type BaseModel = { ready: ModelRow } | { waits: string };

/** The base model as a file that can be opened, or what the job waits for. Throws where it never can be. */
export function baseModelOf(ctx: Ctx, job: JobRow): BaseModel {
  const model = models.find(ctx, job.workspaceId, job.baseModelId ?? job.baseModel ?? "");
  const use = model ? models.usability(ctx, model) : { never: true, reason: "was deleted" };
  if ("ready" in use) return use;
  if ("waits" in use) return { waits: `waits for the model ${job.baseModel}, which ${use.reason}` };
  throw unstartable("provisioning_failed", `The model ${job.baseModel} ${use.reason}`, "/base_model");
}

export function planOf(ctx: Ctx, job: JobRow, model: ModelRow): TrainPlan {
  if (job.method === "custom" || job.datasetId === null)
    throw unstartable("dataset_error", "The job has no dataset", "/dataset");
  const { evalDatasetId, evalSnapshotNumber } = job;
  return {
    model_path: models.pathOf(ctx, model),
    method: job.method,
    hyperparameters: job.hyperparameters,
    lora: job.lora,
    seed: job.seed,
    rows: rowsOf(ctx, job, job.datasetId, job.snapshotNumber),
    eval_rows: evalDatasetId === null ? null : rowsOf(ctx, job, evalDatasetId, evalSnapshotNumber, "/eval_dataset"),
    total_steps: job.totalSteps,
    micro_divisor: job.microDivisor,
  };
}

export const deviceOf = (ctx: Ctx, devices: readonly number[]) => ({
  data_dir: ctx.config.data_dir,
  threads: ctx.config.training.threads || Math.max(1, availableParallelism() - 1),
  gpus: devices.map((_, i) => i), // of those that it can see
});

type From = { model: ModelRow; devices: readonly number[]; checkpoint: CheckpointRow | undefined };

export function taskOf(ctx: Ctx, job: JobRow, { model, devices, checkpoint }: From): TrainTask {
  return {
    type: "train",
    ...deviceOf(ctx, devices),
    plan: planOf(ctx, job, model),
    checkpoint_dir: pathForWorker(placesOf(ctx, job.id).checkpoints),
    save_steps: job.saveSteps,
    save_seconds: ctx.config.training.save_seconds,
    resume: checkpoint ? pathForWorker(checkpointDir(ctx, checkpoint.path)) : null,
    warm_start: checkpoint || job.resumeFrom === null ? null : warmStart(ctx, job, job.resumeFrom),
    samples_per_step: SAMPLES_PER_STEP,
  };
}

function warmStart(ctx: Ctx, job: JobRow, id: string): string {
  const mine = eq(trainingCheckpoints.workspaceId, job.workspaceId);
  const row = ctx.db
    .select()
    .from(trainingCheckpoints)
    .where(and(eq(trainingCheckpoints.id, id), mine))
    .get();
  if (row && row.deletedAt === null) return pathForWorker(checkpointDir(ctx, row.path));
  throw unstartable("provisioning_failed", `The checkpoint ${id} is gone`, "/resume_from");
}

/** What was thrown on the way to a start, as the job's failure; undefined: not the job's fault. */
export function startFault(error: unknown): JobError | undefined {
  if (error instanceof Unstartable) return error.error;
  if (error instanceof AppError && (error.status < 500 || error.code === "sandbox_unavailable"))
    return { code: "provisioning_failed", message: error.message, param: error.param };
  return undefined;
}
