/** Facts of a column: its deployment, the context of its answers, and whether it reads images. */

import type { Agent } from "../../../resources/serving/agents/schema.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { Model } from "../../../resources/serving/models/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import { useResource, useResources } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { type Column, deploymentOf, isActive } from "./columns.ts";
import type { Checkpoints } from "./titles.ts";

export type Facts = {
  /** The deployment that answers. Undefined: the first message starts one. */
  deployment: Deployment | undefined;
  agent: Agent | undefined;
  job: TrainingJob | undefined;
  checkpoints: Checkpoints | undefined;
  context: number | null | undefined;
};

/** The deployment through which a column answers: its own, that of its base model, or that of its agent. */
export function hostOf(
  column: Column,
  deployments: readonly Deployment[],
  { job, agent }: { job: TrainingJob | undefined; agent: Agent | undefined },
): Deployment | undefined {
  const own = deploymentOf(column, deployments);
  if (own) return own;
  const active = deployments.filter(isActive);
  if (agent) return active.find(({ id, name }) => id === agent.deployment || name === agent.deployment);
  if (column.kind !== "run" || !job || job.lora === null) return undefined;
  const sharing = active.filter(({ model }) => model === job.base_model || model === job.id);
  return sharing.find(({ status, parked }) => status === "serving" && !parked) ?? sharing[0];
}

const id = encodeURIComponent;

export function useFacts(column: Column, deployments: readonly Deployment[]): Facts {
  const own = deploymentOf(column, deployments);
  const ofRun = own?.source === "training_job" && own.model.startsWith("job_") ? own.model : null;
  const jobId = column.kind === "run" ? column.job : ofRun;
  const canRead = jobId !== null && may("training");
  const job = useResource<TrainingJob>(canRead ? `/v1/training_jobs/${id(jobId)}` : null).data;
  const checkpoints = useResource<Checkpoints>(
    canRead ? `/v1/training_jobs/${id(jobId)}/checkpoints?limit=100` : null,
  ).data;
  const agent = useResource<Agent>(column.kind === "agent" ? `/v1/agents/${id(column.name)}` : null).data;
  const deployment = hostOf(column, deployments, { job, agent });
  const model = useResource<Model>(deployment && isActive(deployment) ? `/v1/models/${deployment.id}` : null).data;
  return { deployment, agent, job, checkpoints, context: model?.context_length };
}

type Props = { modalities: { vision: boolean } };

/** True if all of them read images. A parked deployment is not woken for the question. */
export function useVision(deployments: readonly (Deployment | undefined)[]): boolean {
  const awake = deployments.flatMap((each) => (each?.status === "serving" && !each.parked ? [each.id] : []));
  const { parts } = useResources<Props>(awake.map((each) => `/props?model=${id(each)}`));
  return (
    deployments.length > 0 &&
    awake.length === deployments.length &&
    parts.every(({ data }) => data?.modalities.vision === true)
  );
}
