/** Agents among the models that a client can use, after the deployments. Only those whose deployment is listed itself. */
import { and, asc, eq, gt } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import type { PageQuery } from "../../../http/answer/pagination.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { findListed, isServedName, listServed } from "../deployments/served.ts";
import type { Model } from "../models/schema.ts";
import { find, within } from "./service.ts";
import { type AgentRow, agents } from "./table.ts";

const BATCH = 100;

/** Deployments by name, then agents by name. `after` is the name of the last one that the client has. */
export async function listUsable(ctx: Ctx, workspaceId: string, { limit, after }: PageQuery) {
  const isAgent = after !== undefined && !isServedName(ctx, workspaceId, after) && isAgentName(ctx, workspaceId, after);
  const served = isAgent ? { data: [], has_more: false } : await listServed(ctx, workspaceId, { limit, after });
  if (served.has_more) return { object: "list" as const, data: served.data, has_more: true };
  const room = Math.max(0, limit - served.data.length);
  const more = await agentsAfter(ctx, workspaceId, isAgent ? after : undefined, room + 1);
  return { object: "list" as const, data: [...served.data, ...more.slice(0, room)], has_more: more.length > room };
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
