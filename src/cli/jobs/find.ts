import { UsageError } from "../../lib/errors.ts";
import { nearest } from "../../lib/text/nearest.ts";
import { isJobOver } from "../../lib/training/job_status.ts";
import type { TrainingJob } from "../../resources/training/training_jobs/schema.ts";
import { EXIT } from "../args.ts";
import type { Client } from "../client.ts";
import { listAll, onlyOne, wholeId } from "../lists.ts";

/** The fields of a training job that the commands show. */
export type Job = Pick<
  TrainingJob,
  | "id"
  | "status"
  | "base_model"
  | "method"
  | "output_name"
  | "progress"
  | "latest_metrics"
  | "error"
  | "queue_position"
  | "queue_reason"
  | "created_at"
  | "started_at"
  | "completed_at"
> &
  Partial<Pick<TrainingJob, "warnings" | "stopped_early">>;

/** The fields that `get` and `compare` show. */
export type JobDetails = Job &
  Pick<
    TrainingJob,
    | "gpu"
    | "region"
    | "placement"
    | "dataset"
    | "eval_dataset"
    | "hyperparameters"
    | "lora"
    | "reward_language"
    | "tags"
    | "group"
    | "notes"
    | "reward_functions"
    | "seed"
    | "resume_from"
    | "best_checkpoint_id"
    | "best_by"
    | "pause_reason"
    | "cost_usd"
    | "energy_wh"
  >;

export const isOver = ({ status }: Pick<Job, "status">) => isJobOver(status);

export const pathOf = (id: string, rest = "") => `/v1/training_jobs/${encodeURIComponent(id)}${rest}`;

export const allJobs = (client: Client, filters: Record<string, string> = {}) => {
  const query = new URLSearchParams(filters).toString();
  return listAll<JobDetails>(client, `/v1/training_jobs${query === "" ? "" : `?${query}`}`, ({ id }) => id);
};

/** Finds a job by id, or by the name of its result if only one job has it. */
export async function mustFind(client: Client, target: string): Promise<JobDetails> {
  if (target.startsWith("job_")) {
    const id = await wholeId(target, () => allJobs(client));
    return (await client.call<JobDetails>("GET", pathOf(id))).body;
  }
  const all = await allJobs(client);
  const named = all.filter(({ output_name }) => output_name === target);
  const job = onlyOne(named, "jobs", target);
  if (job) return job;
  const names = [...new Set(all.map(({ output_name }) => output_name))];
  const close = nearest(target, names);
  const there = names.length > 0 ? ` Jobs: ${names.slice(0, 10).join(", ")}.` : "";
  throw new UsageError(
    `There is no training job ${JSON.stringify(target)}.${close ? ` Did you mean ${close}?` : there} \`verk jobs create\` creates one.`,
    EXIT.failed,
  );
}
