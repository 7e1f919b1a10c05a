/** Agents among the models that a client can use, after the deployments. Only those whose deployment is listed itself. */
import { and, asc, eq, gt, isNull } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import type { PageQuery } from "../../http/answer/pagination.ts";
import { findListed, isServedName, listServed } from "../deployments/served.ts";
import type { Model } from "../models/schema.ts";
import { find, isNewest } from "./service.ts";
import { type AgentRow, agents } from "./table.ts";

const BATCH = 100;

/** Deployments by name, then agents by name. `after` is the name of the last one that the client has. */
export function listUsable(ctx: Ctx, workspaceId: string, { limit, after }: PageQuery) {
  const isAgent = after !== undefined && !isServedName(ctx, workspaceId, after) && isAgentName(ctx, workspaceId, after);
  const served = isAgent ? { data: [], has_more: false } : listServed(ctx, workspaceId, { limit, after });
  if (served.has_more) return { object: "list" as const, data: served.data, has_more: true };
  const room = Math.max(0, limit - served.data.length);
  const more = agentsAfter(ctx, workspaceId, isAgent ? after : undefined, room + 1);
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

function agentsAfter(ctx: Ctx, workspaceId: string, after: string | undefined, most: number): Model[] {
  const found: Model[] = [];
  for (let last = after; found.length < most; ) {
    const rows = newestAfter(ctx, workspaceId, last);
    for (const row of rows) {
      const model = modelOf(ctx, row);
      if (model) found.push(model);
    }
    if (rows.length < BATCH) break;
    last = rows.at(-1)?.name;
  }
  return found.slice(0, most);
}

const newestAfter = ({ db }: Ctx, workspaceId: string, after: string | undefined): AgentRow[] =>
  db
    .select()
    .from(agents)
    .where(
      and(
        eq(agents.workspaceId, workspaceId),
        isNull(agents.deletedAt),
        isNewest,
        after === undefined ? undefined : gt(agents.name, after),
      ),
    )
    .orderBy(asc(agents.name))
    .limit(BATCH)
    .all();

/** The model of the agent's deployment, under the name of the agent. */
function modelOf(ctx: Ctx, row: AgentRow): Model | undefined {
  const { id, workspaceId, name, version } = row;
  const served = isServedName(ctx, workspaceId, name) ? undefined : findListed(ctx, workspaceId, row.deployment);
  return served && { ...served, id: name, created: Math.floor(row.createdAt / 1000), agent: { id, version } };
}

export function findAgentModel(ctx: Ctx, workspaceId: string, ref: string): Model | undefined {
  const row = find(ctx, workspaceId, ref);
  return row && modelOf(ctx, row);
}
