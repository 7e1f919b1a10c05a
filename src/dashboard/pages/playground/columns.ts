/** The columns in the address, and the deployments that answer them. Pure. */
import { isDeploymentOver } from "../../../lib/deployment_status.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { Model } from "../../../resources/serving/models/schema.ts";

/** `run` without `checkpoint`: the result of the run. */
export type Column =
  | { kind: "deployment"; id: string }
  | { kind: "run"; job: string; checkpoint: string | null }
  | { kind: "model"; name: string };

const MOST_COLUMNS = 6;

/** `dep_1,job_2,job_2:ckpt_3,model:verk-tiny` */
export function columnsOf(text: string): Column[] {
  const keys = text.split(",").filter((key) => key !== "");
  return [...new Set(keys)].slice(0, MOST_COLUMNS).flatMap((key): Column[] => {
    if (key.startsWith("dep_")) return [{ kind: "deployment", id: key }];
    if (key.startsWith("model:")) return [{ kind: "model", name: decoded(key.slice("model:".length)) }];
    const [job = "", checkpoint] = key.split(":");
    return job.startsWith("job_") ? [{ kind: "run", job, checkpoint: checkpoint ?? null }] : [];
  });
}

/** `?models=demo,verk-tiny`: names or ids of deployments, else names of models. */
export function namedColumns(text: string, deployments: readonly Deployment[]): Column[] {
  const columns = new Map<string, Column>();
  for (const name of text.split(",").filter((each) => each !== "")) {
    const deployment =
      deployments.find((each) => each.id === name) ?? deployments.find((each) => each.name === name && isActive(each));
    const column: Column = deployment ? { kind: "deployment", id: deployment.id } : { kind: "model", name };
    columns.set(keyOf(column), column);
  }
  return [...columns.values()].slice(0, MOST_COLUMNS);
}

export function keyOf(column: Column): string {
  if (column.kind === "deployment") return column.id;
  if (column.kind === "model") return `model:${encodeURIComponent(column.name)}`;
  return column.checkpoint === null ? column.job : `${column.job}:${column.checkpoint}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const isActive = ({ status }: Deployment): boolean => !isDeploymentOver(status);

/** The active deployment that serves exactly what the column names; undefined: none does yet. */
export function deploymentOf(column: Column, deployments: readonly Deployment[]): Deployment | undefined {
  if (column.kind === "deployment") return deployments.find(({ id }) => id === column.id);
  const [model, checkpoint] = column.kind === "run" ? [column.job, column.checkpoint] : [column.name, null];
  const fitting = deployments.filter(
    (each) => isActive(each) && each.model === model && each.checkpoint === checkpoint,
  );
  return fitting.find(({ status }) => status === "serving") ?? fitting[0];
}

/** Without columns in the address: the first active deployments. */
export const firstColumns = (deployments: readonly Deployment[]): Column[] =>
  deployments
    .filter(isActive)
    .slice(0, 3)
    .map(({ id }) => ({ kind: "deployment", id }));

/** `mdl_base` or `mdl_base+mdl_adapter`, as the answer's `system_fingerprint` has it. */
export type Answered = { base: string; adapter: string | null };

export function answeredBy(fingerprint: string | null | undefined): Answered | undefined {
  const [base, adapter] = (fingerprint ?? "").split("+");
  return base ? { base, adapter: adapter ?? null } : undefined;
}

/** True if the answer came from what the deployment names. `model`: the adapter that answered or, without one, the base. */
export function isExpected(
  { source, model, checkpoint }: Pick<Deployment, "source" | "model" | "checkpoint">,
  { adapter }: Answered,
  answered: Pick<Model, "id" | "name" | "job_id" | "checkpoint_id">,
): boolean {
  if (source === "training_job")
    return answered.job_id === model && (checkpoint === null || answered.checkpoint_id === checkpoint);
  return answered.name === model || answered.id === model || (adapter === null && answered.job_id === null);
}
