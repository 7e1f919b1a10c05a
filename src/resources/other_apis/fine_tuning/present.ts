/** Fine-tuning jobs, their events and checkpoints as a client of OpenAI reads them. Pure. */
import type { z } from "zod";
import { isFinished } from "../../training/training_jobs/state/rows.ts";
import type { CheckpointRow, JobEventRow, JobRow } from "../../training/training_jobs/table.ts";
import { seconds, secondsOrNull } from "../files/schema.ts";
import type { FineTuningCheckpoint, FineTuningEvent, FineTuningJob } from "./schema.ts";
import type { FineTuningRow } from "./table.ts";
import { shownHyperparameters } from "./translate.ts";

/** A job has succeeded when its result is deployed. */
function statusOf({ deploymentId, deploymentError }: FineTuningRow, { status }: JobRow): FineTuningJob["status"] {
  if (status === "completed") return deploymentError ? "failed" : deploymentId ? "succeeded" : "running";
  if (status === "queued" || status === "paused" || status === "failed" || status === "cancelled") return status;
  return "running";
}

export function present(row: FineTuningRow, job: JobRow): FineTuningJob {
  const status = statusOf(row, job);
  const failure = row.deploymentError ? { ...row.deploymentError, param: null } : null;
  const tokens = job.latestMetrics["num_tokens"];
  return {
    id: row.id,
    object: "fine_tuning.job",
    created_at: seconds(row.createdAt),
    finished_at: status === "running" || !isFinished(job) ? null : secondsOrNull(job.completedAt),
    estimated_finish: status === "running" && job.etaMs !== null ? seconds(job.updatedAt + job.etaMs) : null,
    model: row.model,
    fine_tuned_model: row.deploymentId === null ? null : row.servedName,
    organization_id: row.workspaceId,
    status,
    method: row.method,
    hyperparameters: shownHyperparameters(row.method),
    training_file: row.trainingFile,
    validation_file: row.validationFile,
    result_files: [],
    trained_tokens: status === "succeeded" && tokens !== undefined ? Math.round(tokens) : null,
    error: job.error ? { code: job.error.code, message: job.error.message, param: null } : failure,
    seed: job.seed,
    metadata: job.metadata,
    integrations: [],
  };
}

export const presentEvent = (row: JobEventRow): z.infer<typeof FineTuningEvent> => ({
  id: row.id,
  object: "fine_tuning.job.event",
  created_at: seconds(row.createdAt),
  level: row.level,
  message: row.message,
  type: "message",
  data: row.data,
});

export const presentCheckpoint = (row: CheckpointRow): z.infer<typeof FineTuningCheckpoint> => ({
  id: row.id,
  object: "fine_tuning.job.checkpoint",
  created_at: seconds(row.createdAt),
  fine_tuning_job_id: row.jobId,
  fine_tuned_model_checkpoint: row.id,
  step_number: row.step,
  metrics: { step: row.step, ...row.metrics },
});
