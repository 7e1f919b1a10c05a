/** Turns a job's row into the task of its trainer. */
import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { pathForWorker } from "../../../../sandbox/files/foreign_dir.ts";
import type { TrainPlan, TrainTask } from "../../../../workers/protocol_trainer.ts";
import { type Part, type ResolvedRows, resolvedPath } from "../../../data/datasets/stream/resolved.ts";
import * as models from "../../../serving/models/service.ts";
import type { ModelRow } from "../../../serving/models/table.ts";
import { hasRewards } from "../policy.ts";
import { deviceOf, rowsOf, unstartable } from "../state/inputs.ts";
import { checkpointDir, pathsOf } from "../state/paths.ts";
import { type CheckpointRow, type JobRow, trainingCheckpoints } from "../table.ts";

const SAMPLES_PER_STEP = 8;

/** The files that a training opens. `start`: the adapter that it starts from. */
export type Files = { model: ModelRow; start: ModelRow | null; teacher: ModelRow | null };

export function planOf(ctx: Ctx, job: JobRow, { model, start, teacher }: Files): TrainPlan {
  if (job.method === "custom" || job.datasetId === null)
    throw unstartable("dataset_error", "The job has no dataset", "/dataset");
  const { evalDatasetId, evalSnapshotNumber, resolver } = job;
  return {
    model_path: models.pathOf(ctx, model),
    method: job.method,
    hyperparameters: job.hyperparameters,
    lora: job.lora,
    ...(start ? { start_adapter: models.pathOf(ctx, start) } : {}),
    ...(teacher ? { teacher_path: models.pathOf(ctx, teacher) } : {}),
    ...(job.rewards.environments ? { environments: job.rewards.environments } : {}),
    ...(job.method === "distill" && !hasRewards(job.rewards) ? { unrewarded: true } : {}),
    seed: job.seed,
    rows: resolver?.train
      ? resolvedSpec(ctx, job.id, "train", resolver.train)
      : rowsOf(ctx, job, job.datasetId, job.snapshotNumber),
    eval_rows: resolver?.evaluation
      ? resolvedSpec(ctx, job.id, "eval", resolver.evaluation)
      : evalDatasetId === null
        ? null
        : rowsOf(ctx, job, evalDatasetId, evalSnapshotNumber, "/eval_dataset"),
    total_steps: job.totalSteps,
    micro_divisor: job.microDivisor,
  };
}

/** Every row of the file counts. */
const resolvedSpec = (ctx: Ctx, jobId: string, part: Part, { rows, format }: ResolvedRows): TrainPlan["rows"] => ({
  path: resolvedPath(ctx, jobId, part),
  head_row: rows,
  format,
});

type Inputs = Files & { devices: readonly number[]; checkpoint: CheckpointRow | undefined };

export function taskOf(ctx: Ctx, job: JobRow, { devices, checkpoint, ...files }: Inputs): TrainTask {
  return {
    type: "train",
    ...deviceOf(ctx, devices, job.gpuCount),
    plan: planOf(ctx, job, files),
    checkpoint_dir: pathForWorker(pathsOf(ctx, job.id).checkpoints),
    save_steps: job.saveSteps,
    save_seconds: ctx.config.training.save_seconds,
    resume: checkpoint ? pathForWorker(checkpointDir(ctx, checkpoint.path)) : null,
    warm_start: checkpoint || job.resumeFrom === null ? null : warmStart(ctx, job, job.resumeFrom),
    samples_per_step: SAMPLES_PER_STEP,
    ranks: job.gpuCount,
    rank: 0,
  };
}

function warmStart(ctx: Ctx, job: JobRow, id: string): string {
  const isOfWorkspace = eq(trainingCheckpoints.workspaceId, job.workspaceId);
  const row = ctx.db
    .select()
    .from(trainingCheckpoints)
    .where(and(eq(trainingCheckpoints.id, id), isOfWorkspace))
    .get();
  if (row && row.deletedAt === null) return pathForWorker(checkpointDir(ctx, row.path));
  throw unstartable("provisioning_failed", `The checkpoint ${id} was deleted`, "/resume_from");
}
