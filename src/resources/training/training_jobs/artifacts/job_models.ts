/** The results of training jobs as models that can be deployed. */
import { and, desc, eq, isNull } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { isId } from "../../../../lib/ids.ts";
import { jobDirAt } from "../../../../sandbox/files/foreign_dir.ts";
import { hasFile } from "../../../../sandbox/files/trees.ts";
import * as modelResults from "../../../serving/models/results.ts";
import * as models from "../../../serving/models/service.ts";
import type { ModelRow } from "../../../serving/models/table.ts";
import { takesBest } from "../policy.ts";
import { type CheckpointRow, type JobRow, trainingCheckpoints, trainingJobs } from "../table.ts";
import { requestModel, servedModelOf } from "./exports.ts";

/** A reference to the model of a job. `model` may be a reference of another kind, which stays as it is. */
export type JobModel = { model: string; checkpoint: string | null };

/** Names of the fields in the caller's request, for errors. */
export type Params = { model: string; checkpoint: string };
const OF_DEPLOYMENT: Params = { model: "/model", checkpoint: "/checkpoint" };

const FILES = { adapter: "adapter.gguf", model: "model.gguf" } as const;

/**
 * The job behind a reference: the id of a checkpoint, or the output name of a job if no model has that name. Other
 * references stay as they are.
 */
export function asJob(ctx: Ctx, workspaceId: string, reference: JobModel, params = OF_DEPLOYMENT): JobModel {
  const { model, checkpoint } = reference;
  if (isId(model, "ckpt")) return { model: jobOfCheckpoint(ctx, workspaceId, reference, params), checkpoint: model };
  if (isId(model, "job") || models.find(ctx, workspaceId, model)) return reference;
  const named = and(eq(trainingJobs.workspaceId, workspaceId), eq(trainingJobs.outputName, model));
  const [first, ...others] = ctx.db.select({ id: trainingJobs.id }).from(trainingJobs).where(named).limit(5).all();
  if (first && others.length > 0) {
    const ids = [first, ...others].map(({ id }) => id).join(", ");
    const message = `${params.model.slice(1)}: several training jobs have the output name ${shown(model)}: give the id of one (${ids})`;
    throw new AppError("schema", message, { param: params.model });
  }
  return first ? { model: first.id, checkpoint } : reference;
}

function jobOfCheckpoint(ctx: Ctx, workspaceId: string, { model: id, checkpoint }: JobModel, params: Params): string {
  if (checkpoint !== null && checkpoint !== id)
    throw new AppError("schema", "checkpoint: leave it out, because model is a checkpoint already", {
      param: params.checkpoint,
    });
  const isOwn = and(eq(trainingCheckpoints.id, id), eq(trainingCheckpoints.workspaceId, workspaceId));
  const row = ctx.db.select().from(trainingCheckpoints).where(isOwn).get();
  const jobId = row?.jobId ?? modelResults.byCheckpoint(ctx, workspaceId, id)?.jobId;
  if (jobId) return jobId;
  throw new AppError("resource_not_found", `No checkpoint ${shown(id)}`, { param: params.model });
}

const shown = (text: string) => JSON.stringify(text.slice(0, 80));

/**
 * Makes the checkpoint a model before the caller uses it, so that it outlives the job. Later calls find it. An
 * intermediate checkpoint of full weights has no model file: it is made while the caller waits. Returns the reference
 * with the job's id.
 */
export async function bringCheckpoint(
  ctx: Ctx,
  workspaceId: string,
  reference: JobModel,
  params = OF_DEPLOYMENT,
): Promise<JobModel> {
  const named = asJob(ctx, workspaceId, reference, params);
  await bring(ctx, workspaceId, named, params);
  return named;
}

async function bring(ctx: Ctx, workspaceId: string, { model, checkpoint }: JobModel, params: Params) {
  const job = checkpoint === null ? undefined : jobOf(ctx, workspaceId, model);
  if (!job || checkpoint === null || modelResults.byCheckpoint(ctx, workspaceId, checkpoint)) return;
  const checkpointRow = checkpointOf(ctx, job, checkpoint);
  if (!checkpointRow) return; // `resultOf` rejects it
  const variant = job.lora === null ? "model" : "adapter";
  const file = { dir: jobDirAt(ctx.config.data_dir, checkpointRow.path), name: FILES[variant] };
  if (!hasFile(file.dir, file.name)) {
    if (job.lora !== null) throw notServable(checkpointRow, params);
    const servedModel = servedModelOf(ctx, workspaceId, checkpoint);
    if (!servedModel || servedModel.status === "failed" || servedModel.status === "missing")
      requestModel(ctx, job, checkpointRow);
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

const notServable = ({ id, step, jobId }: CheckpointRow, { checkpoint: param }: Params) =>
  new AppError(
    "unsupported_state",
    `${param.slice(1)}: the files of ${id} (step ${step}) have no adapter: choose another of GET /v1/training_jobs/${jobId}/checkpoints`,
    { param },
  );

/** The model of a job, or of one of its checkpoints. A deleted job may have left its models. */
export function resultOf(
  ctx: Ctx,
  workspaceId: string,
  { model: jobId, checkpoint }: JobModel,
  params = OF_DEPLOYMENT,
): ModelRow {
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
      `${params.checkpoint.slice(1)}: ${jobId} has no checkpoint ${shown(checkpoint)}: GET /v1/training_jobs/${jobId}/checkpoints lists them`,
      { param: params.checkpoint },
    );
  }
  if (model && (!job || (job.status === "completed" && model.checkpointId === result))) return model;
  const param = params.model;
  if (!job) throw new AppError("resource_not_found", `No training job ${shown(jobId)}`, { param });
  throw new AppError("unsupported_state", `${param.slice(1)}: ${jobId} ${whyNone(job, params)}`, { param });
}

function whyNone({ status, method, id }: JobRow, params: Params): string {
  if (method === "custom") return "is a custom job, which has no model: upload one with POST /v1/models";
  const checkpoints = `or set ${params.checkpoint.slice(1)} to one of its checkpoints (GET /v1/training_jobs/${id}/checkpoints)`;
  if (status === "failed" || status === "cancelled")
    return `is ${status} and has no result: train again, ${checkpoints}`;
  if (status === "completed") return "has completed, but its model was deleted: train again";
  return `is ${status}: wait until it has completed, ${checkpoints}`;
}

function jobOf(ctx: Ctx, workspaceId: string, id: string): JobRow | undefined {
  const isOwn = and(eq(trainingJobs.id, id), eq(trainingJobs.workspaceId, workspaceId));
  return isId(id, "job") ? ctx.db.select().from(trainingJobs).where(isOwn).get() : undefined;
}

/** The checkpoint that a completed job's model is made from: the best, if the job asks for it, or the last. */
function resultCheckpoint(ctx: Ctx, job: JobRow): string | undefined {
  if (takesBest(job) && job.bestCheckpointId !== null) return job.bestCheckpointId;
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
