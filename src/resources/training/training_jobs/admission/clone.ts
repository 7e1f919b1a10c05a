/** Completes a request with the fields of the job that it clones. */
import type { Ctx } from "../../../../context.ts";
import { usdOf } from "../../../../lib/money.ts";
import { MINUTE_MS } from "../../../../lib/units.ts";
import { envOf } from "../custom/resources.ts";
import { isReadOnly } from "../policy.ts";
import { priorityOf } from "../schema.ts";
import { mustGet } from "../state/rows.ts";
import type { JobRow } from "../table.ts";
import type { CreateTrainingJob } from "./create_schema.ts";

/** The body without `dataset_id`, which is only another name of `dataset`. */
export type JobRequest = Omit<CreateTrainingJob, "dataset_id" | "dry_run">;

export function requestOf(ctx: Ctx, workspaceId: string, body: CreateTrainingJob): JobRequest {
  const { dataset_id, dry_run: _, dataset = dataset_id, ...rest } = body;
  const request: JobRequest = { ...rest, ...(dataset === undefined ? {} : { dataset }) };
  if (!body.source_job) return request;
  const source = mustGet(ctx, workspaceId, body.source_job, "/source_job");
  return merged(requestFor(ctx, source), request);
}

/** Fields of `request` win. Rewards, a teacher and hyperparameters are not inherited by another method. */
function merged(source: JobRequest, request: JobRequest): JobRequest {
  const sameMethod = request.method === undefined || request.method === source.method;
  const hasRewards = request.reward_source !== undefined || request.reward_functions !== undefined;
  const hasResolver = request.data_resolver_source !== undefined || request.data_resolver !== undefined;
  const { reward_source, reward_language, reward_functions, teacher_model, hyperparameters, ...rest } = source;
  const others = request.method === undefined || request.method === "custom" ? rest : withoutCommand(rest);
  const rewards = hasRewards || !sameMethod ? {} : { reward_source, reward_language, reward_functions };
  return {
    ...(defined({ ...others, ...rewards, ...(sameMethod ? { teacher_model } : {}) }) as JobRequest),
    ...(hasResolver ? NO_RESOLVER : {}),
    ...(defined(request) as JobRequest),
    hyperparameters: { ...(sameMethod ? hyperparameters : {}), ...request.hyperparameters },
    checkpoint: { ...source.checkpoint, ...request.checkpoint },
    ...(source.resources || request.resources ? { resources: { ...source.resources, ...request.resources } } : {}),
  };
}

const OF_COMMAND = ["secrets", "volumes", "resources", "network", "env"] as const;

const withoutCommand = <T extends object>(source: T): T =>
  Object.fromEntries(Object.entries(source).filter(([name]) => !OF_COMMAND.some((field) => field === name))) as T;

const NO_RESOLVER = { data_resolver: null, data_resolver_source: null, data_resolver_language: null };

const defined = (object: object) =>
  Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));

/** The request that would create this job. */
function requestFor(ctx: Ctx, row: JobRow): JobRequest {
  const reference = (id: string | null, number: number | null) =>
    id === null ? undefined : number === null ? id : `${id}@snap-${number}`;
  const dataset = reference(row.datasetId, row.snapshotNumber);
  const evalDataset = reference(row.evalDatasetId, row.evalSnapshotNumber);
  return {
    ...(row.baseModel === null ? {} : { base_model: row.baseModel }),
    teacher_model: row.teacher?.id ?? null,
    method: row.method,
    output_name: row.outputName,
    ...(dataset === undefined ? {} : { dataset }),
    ...(evalDataset === undefined ? {} : { eval_dataset: evalDataset }),
    reward_source: row.rewards.source,
    reward_language: row.rewards.language,
    reward_functions: row.rewards.functions,
    ...resolverFor(row),
    hyperparameters: row.given ?? {},
    lora: row.lora,
    gpu: { gpu_type: row.gpuType, gpu_count: row.gpuCount },
    provider: row.provider,
    region: row.region,
    resume_from: row.resumeFrom,
    code_artifact_id: row.codeArtifactId,
    command: row.command,
    ...commandFor(ctx, row),
    ...(row.maxRuntimeMs === null ? {} : { max_runtime_minutes: row.maxRuntimeMs / MINUTE_MS }),
    max_cost_usd: row.maxCostMicros === null ? null : usdOf(row.maxCostMicros),
    priority: priorityOf(row),
    checkpoint: { save_steps: row.saveSteps, keep_last: row.keepLast },
    seed: row.seed,
    metadata: row.metadata,
    tags: row.tags,
    group: row.group,
  };
}

/** Jobs of older versions that are not custom may have secrets and volumes, which they do not use. */
function commandFor(ctx: Ctx, row: JobRow): Pick<JobRequest, (typeof OF_COMMAND)[number]> {
  if (row.method !== "custom") return {};
  return {
    secrets: row.secrets,
    volumes: row.volumes.map((volume) => ({ ...volume, read_only: isReadOnly(volume) })),
    ...(row.resources ? { resources: row.resources } : {}),
    ...(row.network ? { network: row.network } : {}),
    env: envOf(ctx, row),
  };
}

function resolverFor({ resolver }: JobRow): Pick<JobRequest, keyof typeof NO_RESOLVER> {
  if (!resolver) return NO_RESOLVER;
  if (resolver.stored) return { ...NO_RESOLVER, data_resolver: resolver.stored.id };
  return { data_resolver: null, data_resolver_source: resolver.source, data_resolver_language: resolver.language };
}
