/** Checks what a new monitor measures: the fields must fit the metric, and the things must exist. */
import { and, eq } from "drizzle-orm";
import type { Ctx, Principal } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import * as deployments from "../../serving/deployments/service.ts";
import { trainingJobs } from "../../training/training_jobs/table.ts";
import * as webhooks from "../webhooks/service.ts";
import { FACTS, type Metric, type Target } from "./metrics.ts";
import type { CreateMonitor } from "./schema.ts";

const TARGETS: readonly Target[] = ["deployment_id", "job_id", "endpoint_id", "device", "score"];

export const comparisonOf = (metric: Metric) => FACTS[metric].comparison;

export function mustHaveTargets(ctx: Ctx, { workspaceId, scopes }: Principal, input: CreateMonitor) {
  const { targets, operator } = FACTS[input.metric];
  if (operator && !scopes.includes("admin"))
    throw new AppError(
      "missing_scope",
      `The metric ${input.metric} is of the whole machine: use a key with the scope admin`,
    );
  for (const target of TARGETS) mustFit(input, target, targets);
  const { deployment_id: deploymentId, job_id: jobId, endpoint_id: endpointId } = input;
  if (deploymentId) under("/deployment_id", () => deployments.mustGet(ctx, workspaceId, deploymentId));
  if (jobId) mustBeJob(ctx, workspaceId, jobId);
  if (endpointId) under("/endpoint_id", () => webhooks.mustGet(ctx, workspaceId, endpointId));
  return {
    deploymentId: deploymentId ?? null,
    jobId: jobId ?? null,
    endpointId: endpointId ?? null,
    device: input.device ?? null,
    score: input.score ?? null,
  };
}

function mustBeJob({ db }: Ctx, workspaceId: string, jobId: string) {
  const { id, workspaceId: owner } = trainingJobs;
  const job = db
    .select({ id })
    .from(trainingJobs)
    .where(and(eq(id, jobId), eq(owner, workspaceId)))
    .get();
  if (!job)
    throw new AppError("resource_not_found", `No training job ${jobId}: GET /v1/training_jobs lists them`, {
      param: "/job_id",
    });
}

function mustFit(input: CreateMonitor, target: Target, targets: readonly string[]) {
  const isSet = input[target] != null;
  const fault = isSet
    ? targets.includes(target) || targets.includes(`${target}!`)
      ? undefined
      : `the metric ${input.metric} does not take it: leave it out`
    : targets.includes(`${target}!`)
      ? `is missing: the metric ${input.metric} needs it`
      : undefined;
  if (fault !== undefined) throw new AppError("schema", `${target}: ${fault}`, { param: `/${target}` });
}

/** The same error with the field of this request. */
function under(param: string, find: () => unknown) {
  try {
    find();
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "resource_not_found") throw error;
    throw new AppError(error.code, error.message, { param, cause: error });
  }
}
