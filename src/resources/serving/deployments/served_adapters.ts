/**
 * Adapters among the models that a client can use. Each is listed once, with the first deployment of its base model, and
 * not at all if a deployment of its own serves it: several deployments of one base would repeat every adapter otherwise.
 */
import { and, asc, eq, gt, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { takingTurns } from "../../../lib/turns.ts";
import type { Model } from "../models/schema.ts";
import * as models from "../models/service.ts";
import { type ModelRow, models as modelTable } from "../models/table.ts";
import { partsOf } from "./fleet/parts.ts";
import { presentServed, servedAfter } from "./served.ts";
import type { DeploymentRow } from "./table.ts";

const BATCH = 100;

/** At most `most`, by the name of the adapter. `after`: the name of the last one that the client has. */
export async function adaptersAfter(ctx: Ctx, workspaceId: string, after: string | undefined, most: number) {
  const { bases, served } = await deployed(ctx, workspaceId);
  const listed: Model[] = [];
  if (bases.size === 0) return listed;
  const turn = takingTurns(); // adapters of models that do not run are read and not listed, however many they are
  const baseIds = new Map<string, string | undefined>(); // by the name of the base in the adapter
  for (let last = after; ; ) {
    const adapters = batchAfter(ctx, workspaceId, last);
    for (const adapter of adapters) {
      await turn();
      const named = adapter.baseModelId ?? adapter.baseModel ?? adapter.id;
      if (!baseIds.has(named)) baseIds.set(named, models.baseOf(ctx, workspaceId, adapter)?.id);
      const row = bases.get(baseIds.get(named) ?? "");
      if (row && !served.has(adapter.id)) listed.push(presentAdapter(ctx, row, adapter));
      if (listed.length === most) return listed;
    }
    if (adapters.length < BATCH) return listed;
    last = adapters.at(-1)?.name;
  }
}

/** `model` of a request: the adapter stands behind the last colon. */
const presentAdapter = (ctx: Ctx, row: DeploymentRow, adapter: ModelRow): Model => ({
  ...presentServed(ctx, row, adapter),
  id: `${row.name}:${adapter.name.includes(":") ? adapter.id : adapter.name}`,
});

/** `bases`: the first listed deployment of each base model. `served`: models that a deployment serves itself. */
async function deployed(ctx: Ctx, workspaceId: string) {
  const bases = new Map<string, DeploymentRow>();
  const served = new Set<string>();
  const turn = takingTurns();
  for (let last: string | undefined; ; ) {
    const batch = servedAfter(ctx, workspaceId, last, BATCH);
    for (const { row, model } of batch) {
      await turn();
      served.add(model.id);
      const base = partsOf(ctx, workspaceId, model)?.base;
      if (base && !bases.has(base.id)) bases.set(base.id, row);
    }
    if (batch.length < BATCH) return { bases, served };
    last = batch.at(-1)?.row.name;
  }
}

const batchAfter = (ctx: Ctx, workspaceId: string, after: string | undefined): ModelRow[] =>
  ctx.db
    .select()
    .from(modelTable)
    .where(
      and(
        eq(modelTable.workspaceId, workspaceId),
        eq(modelTable.status, "ready"),
        sql`${modelTable.shape} ->> '$.type' = 'adapter'`,
        after === undefined ? undefined : gt(modelTable.name, after),
      ),
    )
    .orderBy(asc(modelTable.name))
    .limit(BATCH)
    .all();
