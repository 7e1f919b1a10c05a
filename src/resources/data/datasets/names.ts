import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { MOST_IDS, named } from "../../../http/query.ts";
import { datasets } from "./table.ts";

/** Datasets by name, in the paths of routes. */
export const byName = ({ db }: Pick<Ctx, "db">) =>
  named("ds", "datasets", (workspaceId, name) =>
    db
      .select({ id: datasets.id })
      .from(datasets)
      .where(and(eq(datasets.workspaceId, workspaceId), eq(datasets.name, name)))
      .limit(MOST_IDS)
      .all(),
  );
