/** The `model` of the requests of a column. A model that no deployment serves is deployed by itself, and parks when it is idle. */
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { Model } from "../../../resources/serving/models/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import { api } from "../../data/api.ts";
import { reload } from "../../data/resource.ts";
import { type Column, deploymentOf, isActive } from "./columns.ts";

/** A checkpoint or result without a deployment of its own is named by its id: the server finds a deployment of its base. */
export function modelOf(column: Column, deployments: readonly Deployment[]): string {
  if (column.kind === "agent") return column.name;
  if (column.kind === "deployment") return column.id;
  const deployment = deploymentOf(column, deployments);
  if (deployment) return deployment.id;
  return column.kind === "run" ? (column.checkpoint ?? column.job) : column.name;
}

/** A forgotten column holds no memory. */
const IDLE_SECONDS = 600;
const LONGEST_NAME = 100;
/** A deployment that was made is in the list after this time at the latest. */
const LISTED_MS = 30_000;

/** Two columns of one base model need one deployment. */
const made = new Map<string, Promise<string>>();
/** Columns of runs for which something was served once. */
const known = new Set<string>();

/**
 * The `model` of a request. Deploys what the column needs first: an adapter needs its base model alone, because all adapters
 * of a base answer through one deployment. `isMissing`: the server knows no deployment for the name. Undefined: only a
 * person can fix it.
 */
export async function servedModel(
  column: Column,
  deployments: readonly Deployment[],
  isMissing: boolean,
): Promise<string | undefined> {
  const model = modelOf(column, deployments);
  if (column.kind === "deployment" || column.kind === "agent") return isMissing ? undefined : model;
  if (!isMissing && (deploymentOf(column, deployments) || known.has(model))) return model;
  const active = isMissing ? [] : deployments.filter(isActive);
  if (column.kind === "model") return await deploy({ model }, model, { active, deployments });
  const { job: id, checkpoint } = column;
  const job = await api<TrainingJob>(`/v1/training_jobs/${encodeURIComponent(id)}`);
  if (job.lora === null || !(await isBase(job.base_model)))
    return await deploy({ model: id, checkpoint }, job.output_name, { active, deployments });
  await deploy({ model: job.base_model }, job.base_model, { active, deployments });
  known.add(model);
  return model;
}

async function isBase(name: string): Promise<boolean> {
  const { type } = await api<Model>(`/v1/models/${encodeURIComponent(name)}?registry=true`);
  return type === "model";
}

type DeployedModel = { model: string; checkpoint?: string | null };
type There = { active: readonly Deployment[]; deployments: readonly Deployment[] };

/** Returns the id of a deployment that is there or new. */
async function deploy(of: DeployedModel, title: string, { active, deployments }: There): Promise<string> {
  const { model, checkpoint = null } = of;
  const there = active.find((each) => each.model === model && each.checkpoint === checkpoint);
  if (there) return there.id;
  const key = JSON.stringify(of);
  const started = made.get(key) ?? create(of, nameOf(title, deployments));
  made.set(key, started);
  const forget = () => made.delete(key);
  started.then(() => setTimeout(forget, LISTED_MS), forget);
  return await started;
}

async function create(of: DeployedModel, name: string): Promise<string> {
  const body = {
    ...of,
    name,
    min_replicas: 0,
    idle_timeout_seconds: IDLE_SECONDS,
    metadata: { made_by: "playground" },
  };
  const { id } = await api<Deployment>("/v1/deployments", { method: "POST", body });
  void reload("/v1/deployments");
  return id;
}

/** A name that no active deployment has. */
export function nameOf(title: string, deployments: readonly Pick<Deployment, "name" | "status">[]): string {
  const plain = title.replaceAll(/[^\w.-]+/g, "-").replaceAll(/^-+|-+$/g, "");
  const first = plain.slice(0, LONGEST_NAME - 4) || "playground";
  const taken = new Set(deployments.filter(isActive).map(({ name }) => name));
  let name = first;
  for (let number = 2; taken.has(name); number++) name = `${first}-${number}`;
  return name;
}
