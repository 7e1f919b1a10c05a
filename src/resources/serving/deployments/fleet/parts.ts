/** The parts of a deployment: a model, or an adapter and its base model, and the projector of a model that reads images. */
import type { Ctx } from "../../../../context.ts";
import { MIB } from "../../../../lib/units.ts";
import { type ProjectorFile, projectorOf } from "../../models/projector.ts";
import * as models from "../../models/service.ts";
import type { ModelRow } from "../../models/table.ts";
import type { DeploymentRow } from "../table.ts";

export type Parts = { base: ModelRow; adapter: ModelRow | null; projector?: ProjectorFile | undefined };

export const isAdapter = ({ shape }: ModelRow) => shape?.type === "adapter";

/** Undefined: an adapter whose base model is unknown. */
export function partsOf(ctx: Ctx, workspaceId: string, model: ModelRow): Parts | undefined {
  if (!isAdapter(model)) return { base: model, adapter: null, projector: projectorOf(ctx, model) };
  const base = models.baseOf(ctx, workspaceId, model);
  return base && { base, adapter: model, projector: projectorOf(ctx, base) };
}

export type UsableParts = { ready: Parts } | Exclude<models.Usability, { ready: ModelRow }>;

/** The files that a replica loads, or the reason why they cannot be opened. The reason names the model. */
export function usableParts(ctx: Ctx, row: DeploymentRow): UsableParts {
  const model = models.find(ctx, row.workspaceId, row.modelId ?? row.model);
  if (!model) return { never: true, reason: `The model ${row.model} was deleted` };
  const parts = partsOf(ctx, row.workspaceId, model);
  if (!parts) return { never: true, reason: `The base model of the adapter ${row.model} was deleted` };
  for (const each of [parts.adapter, parts.base]) {
    const use = each ? models.usability(ctx, each) : undefined;
    if (!each || !use || "ready" in use) continue;
    return { ...use, reason: `The model ${each === model ? row.model : each.name} ${use.reason}` };
  }
  return { ready: parts };
}

/** The size of a replica by its row or the configuration. The context never exceeds the limit of the model. */
export function sizeOf(ctx: Ctx, row: DeploymentRow, base: ModelRow): models.ReplicaSize {
  const { context_length, parallel, kv_type } = ctx.config.serving;
  const most = base.contextLength ?? context_length;
  const contextLength = Math.min(row.contextLength ?? context_length, most);
  return { contextLength, parallel: row.parallel ?? parallel, kvType: row.kvType ?? kv_type };
}

export const adapterBytes = ({ adapter }: Parts): number => adapter?.shape?.weight_bytes ?? 0;

/** The estimated memory of a replica with its own process. */
export const bytesOf = (ctx: Ctx, row: DeploymentRow, parts: Parts): number =>
  memoryOf(parts, sizeOf(ctx, row, parts.base)).total;

/** The estimate of the base model and of what is added to it. */
export function memoryOf(parts: Parts, size: models.ReplicaSize) {
  const { total, ...estimate } = models.estimate(parts.base, size);
  const [adapter, projector] = [adapterBytes(parts), projectorBytes(parts)];
  return { ...estimate, adapter, projector, total: total + adapter + projector };
}

const WORKING_BYTES = 256 * MIB; // of the encoder: measured when the model is loaded
const projectorBytes = ({ projector }: Parts) => (projector ? projector.sizeBytes + WORKING_BYTES : 0);

/** Names the content of a model's file in the same way in every process. A hash comes too late: it takes minutes. */
export const fileIdentity = ({ id, sizeBytes, fileMtimeMs }: ModelRow): string =>
  JSON.stringify([id, sizeBytes, fileMtimeMs]);

/** Names what the numbers in a cache of keys and values depend on. Rotations depend on the length of the context. */
export const cacheIdentity = (base: ModelRow, { contextLength, kvType }: models.ReplicaSize): string =>
  JSON.stringify([fileIdentity(base), contextLength, ...(kvType === "f16" ? [] : [kvType])]);

/** Replicas with the same key can share a process. Two workspaces never do. */
export function keyOf(ctx: Ctx, row: DeploymentRow, { base, projector }: Parts): string {
  const { contextLength, parallel, kvType } = sizeOf(ctx, row, base);
  const file = [base.id, base.path, base.sizeBytes, base.fileMtimeMs, projector?.sizeBytes, projector?.mtimeMs];
  const size = [contextLength, parallel, kvType];
  return JSON.stringify([row.workspaceId, ...file, ...size, row.gpuType, row.gpuCount, row.region]);
}
