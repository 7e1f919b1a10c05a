/** The columns in the address, and the deployments that answer them. Pure. */
import { isDeploymentOver } from "../../../lib/deployment_status.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { Model } from "../../../resources/serving/models/schema.ts";

/** `run` without `checkpoint`: the result of the run. `agent`: its name, or name@version. */
export type Column =
  | { kind: "deployment"; id: string }
  | { kind: "run"; job: string; checkpoint: string | null }
  | { kind: "model"; name: string }
  | { kind: "agent"; name: string };

const MOST_COLUMNS = 6;

/** `dep_1,job_2,job_2:ckpt_3,model:verk-tiny,agent:helper` */
export function columnsOf(text: string): Column[] {
  const keys = text.split(",").filter((key) => key !== "");
  return [...new Set(keys)].slice(0, MOST_COLUMNS).flatMap((key): Column[] => {
    if (key.startsWith("dep_")) return [{ kind: "deployment", id: key }];
    if (key.startsWith("model:")) return [{ kind: "model", name: decoded(key.slice("model:".length)) }];
    if (key.startsWith("agent:")) return [{ kind: "agent", name: decoded(key.slice("agent:".length)) }];
    const [job = "", checkpoint] = key.split(":");
    return job.startsWith("job_") ? [{ kind: "run", job, checkpoint: checkpoint ?? null }] : [];
  });
}

/** `?models=demo,verk-tiny`: each is the `model` of a request. A name of no deployment and no agent is that of a model. */
export function namedColumns(
  text: string,
  deployments: readonly Deployment[],
  agents: readonly { name: string }[] = [],
): Column[] {
  const columns = new Map<string, Column>();
  for (const name of text.split(",").filter((each) => each !== "")) {
    const column = namedColumn(name, deployments, agents);
    columns.set(keyOf(column), column);
  }
  return [...columns.values()].slice(0, MOST_COLUMNS);
}

function namedColumn(name: string, deployments: readonly Deployment[], agents: readonly { name: string }[]): Column {
  const deployment =
    deployments.find((each) => each.id === name) ?? deployments.find((each) => each.name === name && isActive(each));
  if (deployment) return { kind: "deployment", id: deployment.id };
  if (agents.some((agent) => agent.name === name.replace(/@\d+$/, ""))) return { kind: "agent", name };
  if (name.startsWith("job_")) return { kind: "run", job: name, checkpoint: null };
  return { kind: "model", name };
}

export function keyOf(column: Column): string {
  if (column.kind === "deployment") return column.id;
  if (column.kind === "model" || column.kind === "agent") return `${column.kind}:${encodeURIComponent(column.name)}`;
  return column.checkpoint === null ? column.job : `${column.job}:${column.checkpoint}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const isActive = ({ status }: Pick<Deployment, "status">): boolean => !isDeploymentOver(status);

/** The active deployment that serves exactly what the column names; undefined: none does yet. */
export function deploymentOf(column: Column, deployments: readonly Deployment[]): Deployment | undefined {
  if (column.kind === "deployment") return deployments.find(({ id }) => id === column.id);
  if (column.kind === "agent") return undefined; // the server finds it by the name of the agent
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
    .slice(0, 1)
    .map(({ id }) => ({ kind: "deployment", id }));

/** `mdl_base` or `mdl_base+mdl_adapter`, as the answer's `system_fingerprint` has it. */
export type Answered = { base: string; adapter: string | null };

export function answeredBy(fingerprint: string | null | undefined): Answered | undefined {
  const [base, adapter] = (fingerprint ?? "").split("+");
  return base ? { base, adapter: adapter ?? null } : undefined;
}

type Named = Pick<Deployment, "source" | "model" | "checkpoint">;

/**
 * True if the answer came from what the column names. `answered`: the adapter that answered or, without one, the base.
 * `deployment`: that of a column that names one, or of an agent. A deployment names a result of training by the id of its
 * job, or by the name of its model.
 */
export function isExpected(
  column: Column,
  deployment: Named | undefined,
  { adapter }: Answered,
  answered: Pick<Model, "id" | "name" | "job_id" | "checkpoint_id">,
): boolean {
  const isOf = (job: string, checkpoint: string | null) =>
    answered.job_id === job && (checkpoint === null || answered.checkpoint_id === checkpoint);
  if (column.kind === "run") return isOf(column.job, column.checkpoint);
  const name = column.kind === "model" ? column.name : deployment?.model;
  if (name === undefined || answered.name === name || answered.id === name) return true;
  if (deployment?.source === "training_job" && isOf(name, deployment.checkpoint)) return true;
  return column.kind !== "model" && deployment?.source === "hub" && adapter === null && answered.job_id === null;
}
