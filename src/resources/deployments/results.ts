/** The results of training jobs as models that can be deployed. */
import { and, desc, eq, isNull } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { isId } from "../../lib/ids.ts";
import { jobDirAt } from "../../sandbox/files/foreign_dir.ts";
import { hasFile } from "../../sandbox/files/trees.ts";
import * as modelResults from "../models/results.ts";
import type { ModelRow } from "../models/table.ts";
import { requestModel, servedModelOf } from "../training_jobs/artifacts/exports.ts";
import { type CheckpointRow, type JobRow, trainingCheckpoints, trainingJobs } from "../training_jobs/table.ts";
import type { CreateDeployment } from "./schema.ts";

const FILES = { adapter: "adapter.gguf", model: "model.gguf" } as const;

/**
 * Makes the checkpoint a model before the deployment is created, so that it outlives the job. Later calls find it. An
 * intermediate checkpoint of full weights has no model file: it is made while the deployment waits.
 */
export async function bringCheckpoint(
  ctx: Ctx,
  workspaceId: string,
  { model, checkpoint }: Pick<CreateDeployment, "model" | "checkpoint">,
) {
  const job = checkpoint === null ? undefined : jobOf(ctx, workspaceId, model);
  if (!job || checkpoint === null || modelResults.byCheckpoint(ctx, workspaceId, checkpoint)) return;
  const checkpointRow = checkpointOf(ctx, job, checkpoint);
  if (!checkpointRow) return; // `resultOf` rejects it
  const variant = job.lora === null ? "model" : "adapter";
  const file = { dir: jobDirAt(ctx.config.data_dir, checkpointRow.path), name: FILES[variant] };
  if (!hasFile(file.dir, file.name)) {
    if (job.lora !== null) throw notServable(checkpointRow);
    const made = servedModelOf(ctx, workspaceId, checkpoint);
    if (!made || made.status === "failed" || made.status === "missing") requestModel(ctx, job, checkpointRow);
    return;
  }
  await modelResults.registerResult(ctx, {
    workspaceId,
    jobId: job.id,
    checkpointId: checkpointRow.id,
    step: checkpointRow.step,
    variant,
    name: `${job.outputName}-step-${checkpointRow.step}`,
    baseModelId: job.baseModelId,
    file,
  });
}

const notServable = ({ id, step, jobId }: CheckpointRow) =>
  new AppError(
    "unsupported_state",
    `checkpoint: the files of ${id} (step ${step}) have no adapter: choose another of GET /v1/training_jobs/${jobId}/checkpoints`,
    { param: "/checkpoint" },
  );

/** The model of a job, or of one of its checkpoints. A deleted job may have left its models. */
export function resultOf(ctx: Ctx, workspaceId: string, jobId: string, checkpoint: string | null): ModelRow {
  const job = jobOf(ctx, workspaceId, jobId);
  const result = job && resultCheckpoint(ctx, job);
  const model =
    checkpoint === null
      ? ((result === undefined ? undefined : modelResults.byCheckpoint(ctx, workspaceId, result)) ??
        modelResults.byJob(ctx, workspaceId, jobId))
      : (modelResults.byCheckpoint(ctx, workspaceId, checkpoint) ?? servedModelOf(ctx, workspaceId, checkpoint));
  if (checkpoint !== null) {
    if (model?.jobId === jobId) return model;
    throw new AppError(
      "resource_not_found",
      `checkpoint: ${jobId} has no checkpoint ${JSON.stringify(checkpoint.slice(0, 80))}: GET /v1/training_jobs/${jobId}/checkpoints lists them`,
      { param: "/checkpoint" },
    );
  }
  if (model && (!job || (job.status === "completed" && model.checkpointId === result))) return model;
  if (!job)
    throw new AppError("resource_not_found", `No training job ${JSON.stringify(jobId.slice(0, 80))}`, {
      param: "/model",
    });
  throw new AppError("unsupported_state", `model: ${jobId} ${whyNone(job)}`, { param: "/model" });
}

function whyNone({ status, method, id }: JobRow): string {
  if (method === "custom") return "is a custom job, which has no model: upload one with POST /v1/models";
  const checkpoints = `or set checkpoint to one of its checkpoints (GET /v1/training_jobs/${id}/checkpoints)`;
  if (status === "failed" || status === "cancelled")
    return `is ${status} and has no result: train again, ${checkpoints}`;
  if (status === "completed") return "has completed, but its model was deleted: train again";
  return `is ${status}: wait until it has completed, ${checkpoints}`;
}

function jobOf(ctx: Ctx, workspaceId: string, id: string): JobRow | undefined {
  const own = and(eq(trainingJobs.id, id), eq(trainingJobs.workspaceId, workspaceId));
  return isId(id, "job") ? ctx.db.select().from(trainingJobs).where(own).get() : undefined;
}

/** The checkpoint that a completed job's model is made from: the best, if the job asks for it, or the last. */
function resultCheckpoint(ctx: Ctx, job: JobRow): string | undefined {
  const takesBest = job.hyperparameters["load_best_model_at_end"] === true;
  if (takesBest && job.bestCheckpointId !== null) return job.bestCheckpointId;
  return ctx.db
    .select({ id: trainingCheckpoints.id })
    .from(trainingCheckpoints)
    .where(eq(trainingCheckpoints.jobId, job.id))
    .orderBy(desc(trainingCheckpoints.step), desc(trainingCheckpoints.id))
    .limit(1)
    .get()?.id;
}

const checkpointOf = (ctx: Ctx, job: JobRow, id: string): CheckpointRow | undefined =>
  ctx.db
    .select()
    .from(trainingCheckpoints)
    .where(
      and(eq(trainingCheckpoints.id, id), eq(trainingCheckpoints.jobId, job.id), isNull(trainingCheckpoints.deletedAt)),
    )
    .get();
