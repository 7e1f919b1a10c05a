/** Whether a deployment can be had at all: its model, its hardware, its size. Asked before anything is queued. */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import * as gpu from "../gpu/service.ts";
import * as models from "../models/service.ts";
import type { ModelRow } from "../models/table.ts";
import { type Hardware, whyNever } from "./policy.ts";
import { sizeOf } from "./replica.ts";
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
export function mustFit(ctx: Ctx, row: DeploymentRow, model: ModelRow | undefined, hardware: Hardware) {
  if (!model?.shape) return;
  const bytes = models.estimate(model, sizeOf(ctx, row, model)).total;
  const why = whyNever(hardware, { type: row.gpuType, count: row.gpuCount, bytes });
  if (why === undefined) return;
  const tooFew = hardware.filter(({ type }) => type === row.gpuType).length < row.gpuCount;
  const size = row.parallel === null ? "/context_length" : "/parallel";
  throw new AppError("schema", `${model.name} cannot be served so: ${why}`, {
    param: tooFew ? "/gpu/gpu_count" : size,
  });
}

/** A model that can be served, now or when it has come: what cannot is refused here, before anything is queued. */
export function modelFor(
  ctx: Ctx,
  workspaceId: string,
  input: CreateDeployment,
  source: DeploymentRow["source"],
): ModelRow {
  const model = lookUp(ctx, workspaceId, input, source);
  const refuse = (why: string) => {
    throw new AppError("invalid_request", `model: ${model.name} ${why}`, { param: "/model" });
  };
  if (model.status === "failed" || model.status === "missing")
    refuse(`is ${model.status}${model.error ? `: ${model.error}` : ""}`);
  if (model.shape?.type === "adapter") refuse("is an adapter: deploy the model it belongs to");
  return model;
}

/** Registry, then models folder, then hub; a training job's model by the job. */
function lookUp(ctx: Ctx, workspaceId: string, input: CreateDeployment, source: DeploymentRow["source"]): ModelRow {
  if (source === "hub") return models.request(ctx, workspaceId, input.model);
  const model = models.byJob(ctx, workspaceId, input.model);
  if (!model)
    throw new AppError(
      "resource_not_found",
      `No model of a training job ${JSON.stringify(input.model.slice(0, 80))}: give the id of a completed job, or source "hub" for a model by name`,
      { param: "/model" },
    );
  return model;
}
