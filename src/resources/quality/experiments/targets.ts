/** Turns the targets and evaluators of a request into those of an experiment. Rejects what can never run. */
import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { isId } from "../../../lib/ids.ts";
import { mustFind } from "../../serving/deployments/served.ts";
import type { DeploymentRow } from "../../serving/deployments/table.ts";
import * as models from "../../serving/models/service.ts";
import { asJob, resultOf } from "../../training/training_jobs/artifacts/job_models.ts";
import { trainingCheckpoints, trainingJobs } from "../../training/training_jobs/table.ts";
import type { CreateExperiment, CreateTarget } from "./schema.ts";
import type { EvaluatorRef, Target } from "./table.ts";

const BLANK = { deploymentId: null, temporary: false, jobId: null, checkpointId: null, model: null, field: null };

export function resolveTargets(ctx: Ctx, workspaceId: string, requests: readonly CreateTarget[]): Target[] {
  const targets = requests.map((target, i) => resolveTarget(ctx, workspaceId, target, `/targets/${i}`));
  const names = targets.map(({ name }) => name);
  const twice = names.findIndex((name, i) => names.indexOf(name) !== i);
  if (twice >= 0)
    throw new AppError(
      "schema",
      `targets.${twice}.name: another target is named ${JSON.stringify(names[twice])}: give each target a name of its own`,
      { param: `/targets/${twice}/name` },
    );
  return targets;
}

function resolveTarget(ctx: Ctx, workspaceId: string, request: CreateTarget, at: string): Target {
  switch (request.type) {
    case "deployment":
      return deploymentTarget(ctx, workspaceId, request, `${at}/deployment`);
    case "checkpoint":
      return checkpointTarget(ctx, workspaceId, request, at);
    case "model": {
      const { model, name = model } = request;
      mustName(ctx, workspaceId, model, `${at}/model`);
      return { ...BLANK, name, type: "model", model, temporary: true };
    }
    case "outputs":
      return { ...BLANK, name: request.name ?? request.field, type: "outputs", field: request.field };
  }
}

/** A model here or on the hub, or a job or a checkpoint with a model of its own. */
function mustName(ctx: Ctx, workspaceId: string, model: string, at: string) {
  renaming(at, () => {
    const named = asJob(ctx, workspaceId, { model, checkpoint: null });
    if (!isId(named.model, "job")) models.findOrDownloadable(ctx, workspaceId, model, at);
    else if (named.checkpoint === null) resultOf(ctx, workspaceId, named);
  });
}

type TargetOf<T extends CreateTarget["type"]> = Extract<CreateTarget, { type: T }>;
const fieldOf = (at: string) => at.slice(1).replaceAll("/", ".");

function deploymentTarget(ctx: Ctx, workspaceId: string, request: TargetOf<"deployment">, at: string): Target {
  const row = renaming(at, () => mustFind(ctx, workspaceId, request.deployment));
  if (row.status === "stopped" || row.status === "failed")
    throw new AppError(
      "unsupported_state",
      `${fieldOf(at)}: ${row.name} is ${row.status}: start it with POST /v1/deployments/${row.id}/start`,
      { param: at },
    );
  return { ...BLANK, ...servedBy(ctx, row), name: request.name ?? row.name, type: "deployment", deploymentId: row.id };
}

/** A job's model may be deployed by its name: then the model knows its job. */
function servedBy(ctx: Ctx, { workspaceId, model, modelId, checkpoint }: DeploymentRow) {
  const servedModel = modelId === null ? undefined : models.find(ctx, workspaceId, modelId);
  const jobId = servedModel?.jobId ?? (isId(model, "job") ? model : null);
  return jobId === null ? { model } : { jobId, checkpointId: checkpoint ?? servedModel?.checkpointId ?? null };
}

function checkpointTarget(ctx: Ctx, workspaceId: string, request: TargetOf<"checkpoint">, at: string): Target {
  const { job: jobId, checkpoint: checkpointId } = request;
  const job = ctx.db
    .select()
    .from(trainingJobs)
    .where(and(eq(trainingJobs.id, jobId), eq(trainingJobs.workspaceId, workspaceId)))
    .get();
  if (!job)
    throw new AppError("resource_not_found", `${fieldOf(at)}.job: no training job ${jobId.slice(0, 80)}`, {
      param: `${at}/job`,
    });
  if (checkpointId === null && job.status !== "completed")
    throw new AppError(
      "unsupported_state",
      `${fieldOf(at)}.job: ${jobId} is ${job.status}: wait until it has completed, or set checkpoint`,
      { param: `${at}/job` },
    );
  const checkpoint = checkpointId === null ? undefined : checkpointOf(ctx, jobId, checkpointId);
  if (checkpointId !== null && !checkpoint)
    throw new AppError(
      "resource_not_found",
      `${fieldOf(at)}.checkpoint: ${jobId} has no checkpoint ${checkpointId.slice(0, 80)}: GET /v1/training_jobs/${jobId}/checkpoints lists them`,
      { param: `${at}/checkpoint` },
    );
  const name = request.name ?? (checkpoint ? `${job.outputName}-step-${checkpoint.step}` : job.outputName);
  return { ...BLANK, name, type: "checkpoint", jobId, checkpointId, temporary: true };
}

const checkpointOf = (ctx: Ctx, jobId: string, id: string) =>
  ctx.db
    .select()
    .from(trainingCheckpoints)
    .where(and(eq(trainingCheckpoints.id, id), eq(trainingCheckpoints.jobId, jobId)))
    .get();

/** The error of another resource, with the field of this request. */
function renaming<T>(param: string, find: () => T): T {
  try {
    return find();
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const message = error.message.replace(/^model: /, "");
    throw new AppError(error.code, `${fieldOf(param)}: ${message}`, { param, cause: error });
  }
}

export function resolveEvaluators(ctx: Ctx, workspaceId: string, refs: readonly string[]): EvaluatorRef[] {
  const { resolve } = ctx.state.experiments.ports;
  const evaluators = refs.map((ref, i) => renaming(`/evaluators/${i}`, () => resolve(ctx, workspaceId, ref)));
  const twice = evaluators.findIndex(({ id }, i) => evaluators.findIndex((other) => other.id === id) !== i);
  if (twice >= 0)
    throw new AppError("schema", `evaluators.${twice}: is named twice: leave one out`, {
      param: `/evaluators/${twice}`,
    });
  const isShared = (label: string) => evaluators.filter((other) => other.label === label).length > 1;
  return evaluators.map((each) => (isShared(each.label) ? { ...each, label: `${each.label}@${each.version}` } : each));
}

export function baselineIndex({ baseline }: CreateExperiment, targets: readonly Target[]): number {
  if (baseline === undefined) return 0;
  const index = targets.findIndex(({ name }) => name === baseline);
  if (index >= 0) return index;
  const names = targets.map(({ name }) => name).join(", ");
  throw new AppError("schema", `baseline: no target is named ${JSON.stringify(baseline)}. The targets are ${names}`, {
    param: "/baseline",
  });
}
