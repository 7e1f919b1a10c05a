/** Whether a deployment can be had at all: its model, its hardware, its size. Asked before anything is queued. */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { isId } from "../../lib/ids.ts";
import * as gpu from "../gpu/service.ts";
import * as models from "../models/service.ts";
import type { ModelRow } from "../models/table.ts";
import { bytesOf, isAdapter, type Parts, partsOf } from "./fleet/parts.ts";
import { type Hardware, whyNever } from "./policy.ts";
import { resultOf } from "./results.ts";
import type { CreateDeployment } from "./schema.ts";
import type { DeploymentRow } from "./table.ts";

/** What the machine has decides the kind of hardware where the caller does not; asked before anything is written. */
export async function hardwareFor(ctx: Ctx, input: CreateDeployment): Promise<{ type: string; hardware: Hardware }> {
  const hardware = await gpu.devices(ctx);
  const types = [...new Set(hardware.map((device) => device.type))];
  const wanted = input.gpu?.gpu_type ?? types[0] ?? "cpu";
  if (!types.includes(wanted))
    throw new AppError("schema", `gpu.gpu_type: this machine has ${types.join(", ")}, not ${wanted}`, {
      param: "/gpu/gpu_type",
    });
  return { type: wanted, hardware };
}

export type Place = Awaited<ReturnType<typeof hardwareFor>>;

/** What can never run here is refused, not queued for ever. A model that is still on its way is not known yet. */
export function mustFit(ctx: Ctx, row: DeploymentRow, parts: Parts | undefined, hardware: Hardware) {
  if (!parts?.base.shape) return;
  const why = whyNever(hardware, { type: row.gpuType, count: row.gpuCount, bytes: bytesOf(ctx, row, parts) });
  if (why === undefined) return;
  const tooFew = hardware.filter(({ type }) => type === row.gpuType).length < row.gpuCount;
  const size = row.parallel === null ? "/context_length" : "/parallel";
  throw new AppError("schema", `${parts.base.name} cannot be served so: ${why}`, {
    param: tooFew ? "/gpu/gpu_count" : size,
  });
}

/** A model that can be served, now or when it has come: what cannot is refused here, before anything is queued. */
export function modelFor(ctx: Ctx, workspaceId: string, input: CreateDeployment): ModelRow {
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
  if (!parts)
    return refuse(
      "is an adapter, and the model it belongs to is not here: fetch that first, or deploy the merged model",
    );
  const { base, adapter } = parts;
  if (adapter === null) return model;
  mustBeUsable(base, `belongs to ${base.name}, which `);
  if (isAdapter(base)) refuse(`belongs to ${base.name}, which is an adapter itself`);
  if (base.architecture !== null && base.architecture !== adapter.architecture)
    refuse(`is an adapter of ${adapter.architecture} models, and ${base.name} is of ${base.architecture}`);
  return model;
}

/** A training job by its id; else registry, then models folder, then hub. */
function lookUp(ctx: Ctx, workspaceId: string, input: CreateDeployment): ModelRow {
  const { model: name, source, checkpoint } = input;
  if (isId(name, "job") && source !== "hub") return resultOf(ctx, workspaceId, name, checkpoint);
  if (checkpoint !== null)
    throw new AppError("schema", "checkpoint: is of a training job: leave it out, or give the job's id as model", {
      param: "/checkpoint",
    });
  if (source !== "training_job") return models.request(ctx, workspaceId, name);
  const model = models.find(ctx, workspaceId, name);
  if (model?.source === "training_job") return model;
  throw new AppError(
    "resource_not_found",
    `No model of a training job ${JSON.stringify(name.slice(0, 80))}: give the id of a completed job, or source "hub" for a model by name`,
    { param: "/model" },
  );
}
