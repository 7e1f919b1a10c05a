/** Names of columns and of the deployments that they create. Pure. */
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import type { Column } from "./columns.ts";

export type Checkpoint = { id: string; step: number; is_best: boolean };
export type Checkpoints = { data: Checkpoint[] };

/** `title`: what answers. `note`: where it comes from. */
export function titleOf(
  column: Column,
  deployment: Deployment | undefined,
  job: TrainingJob | undefined,
  checkpoints: Checkpoints | undefined,
): { title: string; note: string } {
  const checkpoint = column.kind === "run" ? column.checkpoint : (deployment?.checkpoint ?? null);
  const saved = checkpoints?.data.find(({ id }) => id === checkpoint);
  const step = saved ? stepOf(saved) : (checkpoint ?? "result");
  const from = job ? `${job.output_name}, ${step}` : step;
  if (column.kind === "agent") return { title: column.name, note: "agent" };
  if (column.kind === "model")
    return { title: column.name, note: deployment ? "base model" : "base model, not served" };
  if (column.kind === "run")
    return { title: job ? `${job.output_name} ${step}` : column.job, note: `run ${column.job}` };
  if (!deployment) return { title: column.id, note: "" };
  const source = deployment.source === "training_job" ? from : deployment.model;
  return { title: deployment.name, note: source === deployment.name ? "deployment" : source };
}

export const stepOf = ({ step, is_best: best }: Checkpoint): string => `step ${step}${best ? ", best" : ""}`;

const LONGEST_NAME = 100;
const IDLE_SECONDS = 600;

/** It parks when idle, so that a forgotten column holds no memory. */
export function deployBody(column: Column, title: string): object | undefined {
  if (column.kind === "deployment" || column.kind === "agent") return undefined;
  const name = title
    .replaceAll(/[^\w.-]+/g, "-")
    .replaceAll(/^-+|-+$/g, "")
    .slice(0, LONGEST_NAME);
  const from = column.kind === "run" ? { model: column.job, checkpoint: column.checkpoint } : { model: column.name };
  return { ...from, name, min_replicas: 0, idle_timeout_seconds: IDLE_SECONDS };
}
