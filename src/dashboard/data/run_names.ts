import type { TrainingJob } from "../../resources/training/training_jobs/schema.ts";
import { type Page, useResource } from "./resource.ts";
import { may } from "./session.ts";

/** Names of the newest runs. A model that no such run made keeps its own name. */
export function useRunNames(): (model: string) => string {
  const jobs = useResource<Page<TrainingJob>>(may("training") ? "/v1/training_jobs?limit=100" : null).data?.data ?? [];
  const names = new Map(jobs.map(({ id, output_name: name }) => [id, name]));
  return (model) => names.get(model) ?? model;
}
