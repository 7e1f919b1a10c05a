/** Models of the registry with what a person asks of each: the memory that it needs, and the deployments that serve it. */
import { and, eq, inArray, notInArray } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import type { PageQuery } from "../../../../http/answer/pagination.ts";
import { memoryOf, partsOf } from "../../deployments/fleet/parts.ts";
import { deployments } from "../../deployments/table.ts";
import type { Model } from "../schema.ts";
import * as models from "../service.ts";

/** `contextLength` undefined: without the memory. */
export function listRegistry(ctx: Ctx, workspaceId: string, query: PageQuery, contextLength: number | undefined) {
  const listed = models.list(ctx, workspaceId, query);
  const served = servedBy(
    ctx,
    workspaceId,
    listed.data.map(({ id }) => id),
  );
  const data = listed.data.map((model) => ({
    ...model,
    served_by: served.get(model.id) ?? [],
    ...(contextLength === undefined ? {} : { memory_bytes: memoryAt(ctx, workspaceId, model, contextLength) }),
  }));
  return { ...listed, data };
}

/** At most the context of the model. Null: the model, or the base model of an adapter, is not here. */
function memoryAt(ctx: Ctx, workspaceId: string, { id }: Model, wanted: number): number | null {
  const row = models.find(ctx, workspaceId, id);
  const parts = row && partsOf(ctx, workspaceId, row);
  if (!parts?.base.shape) return null;
  const contextLength = Math.min(wanted, parts.base.contextLength ?? wanted);
  const { parallel, kv_type: kvType } = ctx.config.serving;
  return memoryOf(parts, { contextLength, parallel, kvType }).total;
}

/** Active deployments of users by the id of their model. */
function servedBy(ctx: Ctx, workspaceId: string, ids: readonly string[]) {
  const rows = ctx.db
    .select({ id: deployments.id, name: deployments.name, modelId: deployments.modelId })
    .from(deployments)
    .where(
      and(
        eq(deployments.workspaceId, workspaceId),
        inArray(deployments.modelId, [...ids]),
        notInArray(deployments.status, ["stopped", "failed"]),
        eq(deployments.internal, false),
      ),
    )
    .all();
  const found = Map.groupBy(rows, ({ modelId }) => modelId ?? "");
  return new Map([...found].map(([model, each]) => [model, each.map(({ id, name }) => ({ id, name }))] as const));
}
