import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { MOST_IDS, named } from "../../../http/query.ts";
import { monitors } from "./table.ts";

/** Monitors by name, in the paths of routes. */
export const byName = ({ db }: Pick<Ctx, "db">) =>
  named("mon", "monitors", (workspaceId, name) =>
    db
      .select({ id: monitors.id })
      .from(monitors)
      .where(and(eq(monitors.workspaceId, workspaceId), eq(monitors.name, name)))
      .limit(MOST_IDS)
      .all(),
  );
