import { and, desc, eq, gte, isNotNull, lt } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { traceScores as scores, traces } from "../traces/table.ts";

/** `since` counts, `until` does not. `deploymentId`: null for all deployments of the workspace. */
type ScoreQuery = {
  workspaceId: string;
  deploymentId: string | null;
  name: string;
  since: number;
  until: number;
  /** The newest ones, at most this many. */
  limit: number;
};
/** Scores of traces, by the time at which they were given. Booleans count as 0 and 1. Categories and texts have no value. */
export function scoresBetween({ db }: Pick<Ctx, "db">, query: ScoreQuery): number[] {
  const { workspaceId, deploymentId, name, since, until, limit } = query;
  return db
    .select({ value: scores.value })
    .from(scores)
    .innerJoin(traces, eq(traces.id, scores.traceId))
    .where(
      and(
        eq(scores.workspaceId, workspaceId),
        eq(scores.name, name),
        gte(scores.createdAt, since),
        lt(scores.createdAt, until),
        isNotNull(scores.value),
        deploymentId === null ? undefined : eq(traces.deploymentId, deploymentId),
      ),
    )
    .orderBy(desc(scores.createdAt))
    .limit(limit)
    .all()
    .map(({ value }) => value as number);
}
