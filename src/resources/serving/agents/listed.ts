/** The models that a client can use: deployments, then adapters, then agents of listed deployments. Each part is by name. */
import { and, asc, eq, gt } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import type { PageQuery } from "../../../http/answer/pagination.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { findListed, isServedName, presentServed, servedAfter } from "../deployments/served.ts";
import { adaptersAfter } from "../deployments/served_adapters.ts";
import type { Model } from "../models/schema.ts";
import * as models from "../models/service.ts";
import { find, within } from "./service.ts";
import { type AgentRow, agents } from "./table.ts";

const BATCH = 100;

type Part = (
  ctx: Ctx,
  workspaceId: string,
  after: string | undefined,
  most: number,
) => readonly Model[] | Promise<readonly Model[]>;
const deploymentsAfter: Part = (ctx, ...from) =>
  servedAfter(ctx, ...from).map(({ row, model }) => presentServed(ctx, row, model));

/** `after` is the id of the last one that the client has. */
export async function listUsable(ctx: Ctx, workspaceId: string, { limit, after }: PageQuery) {
  const parts: readonly Part[] = [deploymentsAfter, adaptersAfter, agentsAfter];
  const from = positionOf(ctx, workspaceId, after);
  const data: Model[] = [];
  for (const [i, part] of parts.entries())
    if (i >= from.part && data.length <= limit)
      data.push(...(await part(ctx, workspaceId, i === from.part ? from.name : undefined, limit + 1 - data.length)));
  return { object: "list" as const, data: data.slice(0, limit), has_more: data.length > limit };
}

/** The part of the list that goes on behind `after`, and the name in it. */
function positionOf(ctx: Ctx, workspaceId: string, after: string | undefined): { part: number; name?: string } {
  if (after === undefined) return { part: 0 };
  if (isServedName(ctx, workspaceId, after)) return { part: 0, name: after };
  if (isAgentName(ctx, workspaceId, after)) return { part: 2, name: after };
  const at = after.lastIndexOf(":");
  if (at < 0) return { part: 0, name: after }; // a deployment that has ended meanwhile
  const adapter = after.slice(at + 1);
  return { part: 1, name: models.find(ctx, workspaceId, adapter)?.name ?? adapter };
}

/** Also of deleted agents: a client may be in the middle of the list. */
const isAgentName = ({ db }: Ctx, workspaceId: string, name: string): boolean =>
  db
    .select({ id: agents.id })
    .from(agents)
    .where(and(eq(agents.workspaceId, workspaceId), eq(agents.name, name)))
    .limit(1)
    .get() !== undefined;

async function agentsAfter(ctx: Ctx, workspaceId: string, after: string | undefined, most: number): Promise<Model[]> {
  const listed: Model[] = [];
  const models = new Map<string, Model | undefined>(); // by the deployment that the agent names
  const turn = takingTurns(); // agents of deployments that do not run are read and not listed, however many they are
  for (let last = after; listed.length < most; ) {
    const rows = newestAfter(ctx, workspaceId, last);
    for (const row of rows) {
      await turn();
      if (!models.has(row.deployment)) models.set(row.deployment, findListed(ctx, workspaceId, row.deployment));
      const model = modelOf(ctx, row, models.get(row.deployment));
      if (model) listed.push(model);
    }
    if (rows.length < BATCH) break;
    last = rows.at(-1)?.name;
  }
  return listed.slice(0, most);
}

type Listed = Pick<AgentRow, "id" | "workspaceId" | "name" | "version" | "deployment" | "createdAt">;
const { id, workspaceId: owner, name, version, deployment, createdAt } = agents;

const newestAfter = ({ db }: Ctx, workspaceId: string, after: string | undefined): Listed[] =>
  db
    .select({ id, workspaceId: owner, name, version, deployment, createdAt })
    .from(agents)
    .where(and(within(workspaceId, { latest: true }), after === undefined ? undefined : gt(agents.name, after)))
    .orderBy(asc(agents.name))
    .limit(BATCH)
    .all();

/** The model of the agent's deployment, under the name of the agent. */
function modelOf(ctx: Ctx, row: Listed, served: Model | undefined): Model | undefined {
  const { id, workspaceId, name, version } = row;
  if (!served || isServedName(ctx, workspaceId, name)) return undefined;
  return { ...served, id: name, created: Math.floor(row.createdAt / 1000), agent: { id, version } };
}

export function findAgentModel(ctx: Ctx, workspaceId: string, ref: string): Model | undefined {
  const row = find(ctx, workspaceId, ref);
  return row && modelOf(ctx, row, findListed(ctx, workspaceId, row.deployment));
}
