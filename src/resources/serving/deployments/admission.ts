/** Rejects a deployment that could never run, because of its model, its hardware or its size, before it is queued. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { isId } from "../../../lib/ids.ts";
import { resultOf } from "../../training/training_jobs/artifacts/job_models.ts";
import * as models from "../models/service.ts";
import type { ModelRow } from "../models/table.ts";
import { bytesOf, isAdapter, type Parts, partsOf } from "./fleet/parts.ts";
import { type Hardware, whyNever } from "./policy.ts";
import type { CreateDeployment } from "./schema.ts";
import type { DeploymentRow, ModelRef } from "./table.ts";

/** The model that a request names. */
export type ModelChoice = Pick<CreateDeployment, "model" | "source" | "checkpoint">;

export const toRef = ({ model, checkpoint }: ModelChoice, { id, source }: ModelRow): ModelRef => ({
  model,
  modelId: id,
  source: source === "training_job" ? "training_job" : "hub",
  checkpoint,
});

/** Rejects what can never run here, instead of queueing it for ever. The size of a model that is downloading is unknown. */
export function mustFit(ctx: Ctx, row: DeploymentRow, parts: Parts | undefined, hardware: Hardware) {
  if (!parts?.base.shape) return;
  const why = whyNever(hardware, { type: row.gpuType, count: row.gpuCount, bytes: bytesOf(ctx, row, parts) });
  if (why === undefined) return;
  const tooFew = hardware.filter(({ type }) => type === row.gpuType).length < row.gpuCount;
  const size = row.parallel === null ? "/context_length" : "/parallel";
  throw new AppError("schema", `${parts.base.name} cannot be served with these settings: ${why}`, {
    param: tooFew ? "/gpu/gpu_count" : size,
  });
}

/** The model, if it can be served now or after its download. */
export function modelFor(ctx: Ctx, workspaceId: string, input: ModelChoice): ModelRow {
  const model = lookUp(ctx, workspaceId, input);
  const refuse = (why: string) => {
    throw new AppError("invalid_request", `model: ${model.name} ${why}`, { param: "/model" });
  };
  const mustBeUsable = (each: ModelRow, subject: string) => {
    const use = models.usability(ctx, each);
    if ("never" in use) refuse(`${subject}${use.reason}`);
  };
  mustBeUsable(model, "");
  const parts = partsOf(ctx, workspaceId, model);
  if (!parts) return refuse(`is an adapter, and ${whyNoBase(ctx, workspaceId, model)}`);
  const { base, adapter } = parts;
  if (adapter === null) return model;
  mustBeUsable(base, `is an adapter of ${base.name}, which `);
  if (isAdapter(base)) refuse(`is an adapter of ${base.name}, which is an adapter itself: deploy the merged model`);
  if (base.architecture !== null && base.architecture !== adapter.architecture)
    refuse(`is an adapter for ${adapter.architecture} models, and ${base.name} is a ${base.architecture} model`);
  return model;
}

/** Continues the sentence "… is an adapter, and". */
function whyNoBase(ctx: Ctx, workspaceId: string, adapter: ModelRow): string {
  const named = adapter.baseModel === null ? "" : ` (${adapter.baseModel})`;
  const fitting = models.fittingBases(ctx, workspaceId, adapter.shape).map(({ name }) => name);
  if (named === "" && fitting.length > 1)
    return `several models here fit it (${fitting.slice(0, 5).join(", ")}): say which with \`verk deploy ${adapter.name} --base NAME\`, or with base_model of POST /v1/models`;
  return `its base model${named} is not on this server: pull or import the base model first, or deploy the merged model`;
}

/** By the id of a training job, or by the name of a model on this server or on the hub. */
function lookUp(ctx: Ctx, workspaceId: string, input: ModelChoice): ModelRow {
  const { model: name, source, checkpoint } = input;
  if (isId(name, "job") && source !== "hub") return resultOf(ctx, workspaceId, { model: name, checkpoint });
  if (checkpoint !== null)
    throw new AppError(
      "schema",
      "checkpoint: only works with a training job: leave it out, or set model to the id of the job",
      {
        param: "/checkpoint",
      },
    );
  if (source !== "training_job") return models.request(ctx, workspaceId, name);
  const model = models.find(ctx, workspaceId, name);
  if (model?.source === "training_job") return model;
  throw new AppError(
    "resource_not_found",
    `No training job made a model ${JSON.stringify(name.slice(0, 80))}: set model to the id of a completed job, or source to "hub" for a model by name`,
    { param: "/model" },
  );
}
