/** Names of columns. Pure. */
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import type { Column } from "./columns.ts";

export type Checkpoint = { id: string; step: number; is_best: boolean };
export type Checkpoints = { data: Checkpoint[] };

type Facts = {
  deployment: Deployment | undefined;
  job: TrainingJob | undefined;
  checkpoints: Checkpoints | undefined;
};

/** `note`: where the answers come from. */
export function titleOf(column: Column, { deployment, job, checkpoints }: Facts): { title: string; note: string } {
  const checkpoint = column.kind === "run" ? column.checkpoint : (deployment?.checkpoint ?? null);
  const step = checkpointText(checkpoint, checkpoints);
  if (column.kind === "agent") return { title: column.name, note: "agent" };
  if (column.kind === "model") return { title: column.name, note: "base model" };
  if (column.kind === "run")
    return { title: job ? `${job.output_name} ${step}` : column.job, note: job ? `run on ${job.base_model}` : "run" };
  if (!deployment) return { title: column.id, note: "" };
  const from = job ? `${job.output_name}, ${step}` : step;
  const source = deployment.source === "training_job" ? from : deployment.model;
  return { title: deployment.name, note: source === deployment.name ? "deployment" : source };
}

/** Null: the result of the run. */
export function checkpointText(checkpoint: string | null, checkpoints: Checkpoints | undefined): string {
  const saved = checkpoints?.data.find(({ id }) => id === checkpoint);
  return saved ? stepOf(saved) : (checkpoint ?? "result");
}

export const stepOf = ({ step, is_best: best }: Checkpoint): string => `step ${step}${best ? ", best" : ""}`;
