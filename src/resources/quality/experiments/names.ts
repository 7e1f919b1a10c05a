import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { MOST_IDS, named } from "../../../http/query.ts";
import { experiments } from "./table.ts";

/** Experiments by name, in the paths of routes. */
export const byName = ({ db }: Pick<Ctx, "db">) =>
  named("exp", "experiments", (workspaceId, name) =>
    db
      .select({ id: experiments.id })
      .from(experiments)
      .where(and(eq(experiments.workspaceId, workspaceId), eq(experiments.name, name)))
      .limit(MOST_IDS)
      .all(),
  );
