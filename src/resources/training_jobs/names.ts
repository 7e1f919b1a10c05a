import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { MOST_IDS, named } from "../../http/query.ts";
import { trainingJobs } from "./table.ts";

/** Training jobs by name, in the paths of routes. */
export const byName = ({ db }: Pick<Ctx, "db">) =>
  named("job", "training jobs", (workspaceId, name) =>
    db
      .select({ id: trainingJobs.id })
      .from(trainingJobs)
      .where(and(eq(trainingJobs.workspaceId, workspaceId), eq(trainingJobs.outputName, name)))
      .limit(MOST_IDS)
      .all(),
  );
