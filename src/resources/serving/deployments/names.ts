import { and, eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { MOST_IDS, named } from "../../../http/query.ts";
import { deployments } from "./table.ts";

/** Deployments by name, in the paths of routes. An active one, whose name is its own, comes before ended ones. */
export const byName = ({ db }: Pick<Ctx, "db">) =>
  named("dep", "deployments", (workspaceId, name) => {
    const rows = db
      .select({ id: deployments.id, isActive: sql<number>`${deployments.status} NOT IN ('stopped', 'failed')` })
      .from(deployments)
      .where(and(eq(deployments.workspaceId, workspaceId), eq(deployments.name, name)))
      .all();
    const active = rows.filter(({ isActive }) => isActive === 1);
    return (active.length > 0 ? active : rows).slice(0, MOST_IDS);
  });
