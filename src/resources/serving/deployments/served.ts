/** Deployments as the models that a client can use: found by the `model` of a request, and listed by name. */
import { and, asc, eq, gt, inArray, or, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { ACTIVE } from "../../../lib/deployment_status.ts";
import { AppError } from "../../../lib/errors.ts";
import { isId } from "../../../lib/ids.ts";
import { nearest } from "../../../lib/text/nearest.ts";
import { preparedRow } from "../../../platform/db/row.ts";
import { type Model, present } from "../models/schema.ts";
import * as models from "../models/service.ts";
import { type ModelRow, models as modelTable } from "../models/table.ts";
import { adaptersOf } from "./chat/loras.ts";
import { isAdapter, sizeOf } from "./fleet/parts.ts";
import { type DeploymentRow, deployments } from "./table.ts";

const MAX_NAMES = 10; // in a message

/** Not those that the server made for its own work. */
const ofUsers = eq(deployments.internal, false);

const byId = preparedRow(
  deployments,
  and(eq(deployments.id, sql.placeholder("id")), eq(deployments.workspaceId, sql.placeholder("workspaceId"))),
);
const byName = preparedRow(
  deployments,
  and(
    eq(deployments.workspaceId, sql.placeholder("workspaceId")),
    eq(deployments.name, sql.placeholder("name")),
    sql`${deployments.status} NOT IN ('stopped', 'failed')`, // as the index on the name has it
  ),
);

/**
 * The deployment for the `model` of a request: the name of an active one, an id, or a model that one active deployment
 * serves. Without `model`, the only deployment that runs.
 */
export function mustFind(ctx: Ctx, workspaceId: string, model: string | undefined): DeploymentRow {
  if (model === undefined) return onlyOne(ctx, workspaceId);
  const row = find(ctx, workspaceId, model);
  if (row) return row;
  const names = activeOf(ctx, workspaceId).map(({ name }) => name);
  const close = nearest(model, names);
  throw new AppError(
    "resource_not_found",
    `model: no active deployment is named ${JSON.stringify(model.slice(0, 100))}. ${close === undefined ? "" : `Did you mean ${close}? `}${listed(names)}`,
    { param: "/model" },
  );
}

/** Also `deployment:adapter`. The request finds the adapter (chat/loras.ts). */
function find(ctx: Ctx, workspaceId: string, model: string): DeploymentRow | undefined {
  const at = model.lastIndexOf(":");
  return findAlone(ctx, workspaceId, model) ?? (at > 0 ? findAlone(ctx, workspaceId, model.slice(0, at)) : undefined);
}

const findAlone = (ctx: Ctx, workspaceId: string, model: string): DeploymentRow | undefined =>
  isId(model, "dep")
    ? byId(ctx.db, { id: model, workspaceId })
    : (byName(ctx.db, { name: model, workspaceId }) ?? serverOf(ctx, workspaceId, model));

function onlyOne(ctx: Ctx, workspaceId: string): DeploymentRow {
  const active = activeOf(ctx, workspaceId);
  const serving = active.filter(({ status }) => status === "serving");
  const [first, ...others] = serving.length > 0 ? serving : active;
  if (first && others.length === 0) return first;
  const names = listed(active.map(({ name }) => name));
  if (!first) throw new AppError("resource_not_found", `model: is missing. ${names}`, { param: "/model" });
  throw new AppError("schema", `model: is missing, and several deployments run. ${names}`, { param: "/model" });
}

const activeOf = (ctx: Ctx, workspaceId: string): DeploymentRow[] =>
  ctx.db
    .select()
    .from(deployments)
    .where(and(eq(deployments.workspaceId, workspaceId), ofUsers, inArray(deployments.status, ACTIVE)))
    .orderBy(asc(deployments.name))
    .all();

/** Active deployments of embedding models, by name. */
export const embedders = (ctx: Ctx, workspaceId: string): DeploymentRow[] =>
  ctx.db
    .select()
    .from(deployments)
    .innerJoin(modelTable, eq(deployments.modelId, modelTable.id))
    .where(and(eq(deployments.workspaceId, workspaceId), ofUsers, inArray(deployments.status, ACTIVE)))
    .orderBy(asc(deployments.name))
    .all()
    .flatMap(({ deployments: row, models: { shape } }) => (shape?.encoder ? [row] : []));

function listed(names: string[]): string {
  if (names.length === 0) return "No deployment is active: create one with POST /v1/deployments";
  const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : "";
  return `Active deployments: ${names.slice(0, MAX_NAMES).join(", ")}${more}`;
}

/** The deployment that serves a model of the registry. Undefined if none or several do. */
function serverOf(ctx: Ctx, workspaceId: string, model: string): DeploymentRow | undefined {
  const modelId = models.find(ctx, workspaceId, model)?.id;
  const serves = modelId === undefined ? undefined : eq(deployments.modelId, modelId);
  const [only, ...others] = ctx.db
    .select()
    .from(deployments)
    .where(
      and(
        eq(deployments.workspaceId, workspaceId),
        ofUsers,
        inArray(deployments.status, ACTIVE),
        or(eq(deployments.model, model), serves),
      ),
    )
    .limit(2)
    .all();
  return others.length === 0 ? only : undefined;
}

/** True if an active deployment has this name. */
export const isServedName = (ctx: Ctx, workspaceId: string, name: string): boolean =>
  byName(ctx.db, { name, workspaceId }) !== undefined;

/** A queued deployment is not listed: it may fail before it ever answers. */
const LISTED = ["provisioning", "serving", "unhealthy"] as const;

/** At most `most` listed deployments with their models, by name, because a client sends the last name as `after`. */
export const servedAfter = (ctx: Ctx, workspaceId: string, after: string | undefined, most: number) =>
  ctx.db
    .select()
    .from(deployments)
    .innerJoin(modelTable, eq(deployments.modelId, modelTable.id))
    .where(
      and(
        eq(deployments.workspaceId, workspaceId),
        ofUsers,
        inArray(deployments.status, LISTED),
        after === undefined ? undefined : gt(deployments.name, after),
      ),
    )
    .orderBy(asc(deployments.name))
    .limit(most)
    .all()
    .map(({ deployments: row, models: model }) => ({ row, model }));

/** By name, or by the id of an active deployment. */
export function findServed(ctx: Ctx, workspaceId: string, ref: string): Model | undefined {
  const row = (name: string) =>
    isId(name, "dep") ? byId(ctx.db, { id: name, workspaceId }) : byName(ctx.db, { name, workspaceId });
  const deployment = row(ref);
  if (deployment) return servedBy(ctx, deployment, ACTIVE);
  const [, name, adapter] = /^(.+):([^:]+)$/.exec(ref) ?? [];
  const base = name === undefined ? undefined : row(name);
  return base && withAdapters(ctx, base).find(({ id }) => id === `${base.name}:${adapter}`);
}

/** A deployment with each of the adapters that a request to it can name. */
const withAdapters = (ctx: Ctx, row: DeploymentRow): Model[] =>
  adaptersOf(ctx, row).map((adapter) => ({ ...presentServed(ctx, row, adapter), id: `${row.name}:${adapter.name}` }));

/** The adapters that a request can choose, with the scale of each in a request that chooses none. */
export function listLoras(ctx: Ctx, workspaceId: string, model: string | undefined) {
  const row = mustFind(ctx, workspaceId, model);
  const scaleOf = (id: string) => (id === row.modelId ? 1 : 0);
  return adaptersOf(ctx, row).map((adapter, id) => ({ id, path: adapter.name, scale: scaleOf(adapter.id) }));
}

/** The model that answers requests with this `model`, if its deployment is listed. */
export function findListed(ctx: Ctx, workspaceId: string, model: string): Model | undefined {
  const deployment = find(ctx, workspaceId, model);
  return deployment && servedBy(ctx, deployment, LISTED);
}

function servedBy(ctx: Ctx, deployment: DeploymentRow, statuses: readonly string[]): Model | undefined {
  const row = statuses.includes(deployment.status) ? deployment : undefined;
  const model =
    row &&
    ctx.db
      .select()
      .from(modelTable)
      .where(eq(modelTable.id, row.modelId ?? ""))
      .get();
  return row && model && presentServed(ctx, row, model);
}

/** The context is the deployment's: a client that fills the one of the model would be refused. */
export const presentServed = (ctx: Ctx, row: DeploymentRow, model: ModelRow): Model => ({
  ...present(model),
  context_length: contextOf(ctx, row, model),
  id: row.name,
  created: Math.floor(row.createdAt / 1000),
  owned_by: row.workspaceId,
  deployment: { id: row.id, status: row.status, parked: row.parked },
});

function contextOf(ctx: Ctx, row: DeploymentRow, model: ModelRow): number | null {
  const base = isAdapter(model) ? models.baseOf(ctx, row.workspaceId, model) : model;
  return base ? sizeOf(ctx, row, base).contextLength : model.contextLength;
}
