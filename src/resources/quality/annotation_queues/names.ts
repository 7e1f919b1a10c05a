import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { MOST_IDS, named } from "../../../http/query.ts";
import { annotationQueues } from "./table.ts";

/** Annotation queues by name, in the paths of routes. */
export const byName = ({ db }: Pick<Ctx, "db">) =>
  named("anq", "annotation queues", (workspaceId, name) =>
    db
      .select({ id: annotationQueues.id })
      .from(annotationQueues)
      .where(and(eq(annotationQueues.workspaceId, workspaceId), eq(annotationQueues.name, name)))
      .limit(MOST_IDS)
      .all(),
  );
