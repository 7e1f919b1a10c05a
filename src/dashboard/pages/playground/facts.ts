/** Facts of a column: its deployment, the context of its answers, and whether it reads images. */

import { useEffect, useState } from "preact/hooks";
import type { Agent } from "../../../resources/serving/agents/schema.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { Model } from "../../../resources/serving/models/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import { api } from "../../data/api.ts";
import { useResource, useResources } from "../../data/resource.ts";
import { useRunNames } from "../../data/run_names.ts";
import { may } from "../../data/session.ts";
import { type Column, deploymentOf, isActive } from "./columns.ts";
import type { SentMessage } from "./sent.ts";
import { type Checkpoints, checkpointText, titleOf } from "./titles.ts";

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

/** Names of columns in a list. A run whose job is unknown keeps its id. */
export function useTitles(columns: readonly Column[]): (column: Column, deployment: Deployment | undefined) => string {
  const runName = useRunNames();
  const jobs = may("training") ? columns.flatMap((column) => (column.kind === "run" ? column.job : [])) : [];
  const { parts } = useResources<Checkpoints>(
    [...new Set(jobs)].map((job) => `/v1/training_jobs/${id(job)}/checkpoints?limit=100`),
  );
  const checkpoints = { data: parts.flatMap(({ data }) => data?.data ?? []) };
  return (column, deployment) =>
    column.kind === "run"
      ? `${runName(column.job)} ${checkpointText(column.checkpoint, checkpoints)}`
      : titleOf(column, { deployment, job: undefined, checkpoints }).title;
}

/** The deployment if it answers at once. A parked one is not woken for a question of the page. */
export const awake = (deployment: Deployment | undefined): string | undefined =>
  deployment?.status === "serving" && !deployment.parked ? deployment.id : undefined;

type Props = { modalities: { vision: boolean } };

/** True if all of these deployments read images. Undefined: one that does not answer now. */
export function useVision(hosts: readonly (string | undefined)[]): boolean {
  const ids = hosts.flatMap((host) => host ?? []);
  const { parts } = useResources<Props>(ids.map((each) => `/props?model=${id(each)}`));
  const all = hosts.length > 0 && ids.length === hosts.length;
  return all && parts.every(({ data }) => data?.modalities.vision === true);
}

/** Tokens of messages whose answer has no count, such as those of a conversation that was opened. */
export function useCount(model: string | undefined, messages: readonly SentMessage[], isCounted: boolean) {
  const key = model === undefined || isCounted || messages.length === 0 ? undefined : JSON.stringify([model, messages]);
  const [count, setCount] = useState<{ key: string; tokens: number }>();
  useEffect(() => {
    if (key === undefined || model === undefined) return;
    const aborting = new AbortController();
    const body = { model, messages };
    api<{ input_tokens: number }>(COUNT, { method: "POST", body, signal: aborting.signal }).then(
      ({ input_tokens: tokens }) => setCount({ key, tokens }),
      () => {}, // the meter is left out
    );
    return () => aborting.abort();
  }, [key]);
  return count?.key === key ? count?.tokens : undefined;
}

const COUNT = "/v1/chat/completions/input_tokens";
