/** A request with what it leaves out taken from another job. */
import type { Ctx } from "../../../context.ts";
import { usdOf } from "../../../lib/money.ts";
import { priorityOf } from "../schema.ts";
import * as jobs from "../service.ts";
import type { JobRow } from "../table.ts";
import type { CreateTrainingJob } from "./create_schema.ts";

/** `dataset_id` is folded into `dataset`. */
export type Wanted = Omit<CreateTrainingJob, "dataset_id" | "dry_run">;

export function wantedOf(ctx: Ctx, workspaceId: string, body: CreateTrainingJob): Wanted {
  const { dataset_id, dry_run: _, dataset = dataset_id, ...rest } = body;
  const given: Wanted = { ...rest, ...(dataset === undefined ? {} : { dataset }) };
  if (!body.source_job) return given;
  const source = jobs.mustGet(ctx, workspaceId, body.source_job, "/source_job");
  return merged(requestOf(source), given);
}

function merged(source: Wanted, given: Wanted): Wanted {
  const sameMethod = given.method === undefined || given.method === source.method;
  const scores = given.reward_source !== undefined || given.reward_functions !== undefined;
  const { reward_source, reward_language, reward_functions, hyperparameters, ...others } = source;
  const cloned = { ...others, ...(scores || !sameMethod ? {} : { reward_source, reward_language, reward_functions }) };
  return {
    ...(defined(cloned) as Wanted),
    ...(defined(given) as Wanted),
    hyperparameters: { ...(sameMethod ? hyperparameters : {}), ...given.hyperparameters },
    checkpoint: { ...source.checkpoint, ...given.checkpoint },
  };
}

const defined = (object: object) =>
  Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));

/** What would have to be asked for to get this job. */
function requestOf(row: JobRow): Wanted {
  const reference = (id: string | null, number: number | null) => (id === null ? undefined : `${id}@snap-${number}`);
  const dataset = reference(row.datasetId, row.snapshotNumber);
  const evalDataset = reference(row.evalDatasetId, row.evalSnapshotNumber);
  return {
    ...(row.baseModel === null ? {} : { base_model: row.baseModel }),
    method: row.method,
    output_name: row.outputName,
    ...(dataset === undefined ? {} : { dataset }),
    ...(evalDataset === undefined ? {} : { eval_dataset: evalDataset }),
    reward_source: row.rewards.source,
    reward_language: row.rewards.language,
    reward_functions: row.rewards.functions,
    hyperparameters: row.given ?? {},
    lora: row.lora,
    gpu: { gpu_type: row.gpuType, gpu_count: row.gpuCount },
    provider: row.provider,
    resume_from: row.resumeFrom,
    code_artifact_id: row.codeArtifactId,
    command: row.command,
    secrets: row.secrets,
    volumes: row.volumes,
    ...(row.maxRuntimeMs === null ? {} : { max_runtime_minutes: row.maxRuntimeMs / 60_000 }),
    max_cost_usd: row.maxCostMicros === null ? null : usdOf(row.maxCostMicros),
    priority: priorityOf(row),
    checkpoint: { save_steps: row.saveSteps, keep_last: row.keepLast },
    seed: row.seed,
    metadata: row.metadata,
  };
}
