import { and, desc, eq, gte, isNotNull, lt } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { traceScores as scores, traces } from "../traces/table.ts";

/** `since` counts, `until` does not. `deploymentId`: null for all deployments of the workspace. */
export type ScoreQuery = {
  workspaceId: string;
  deploymentId: string | null;
  name: string;
  since: number;
  until: number;
  /** The newest ones, at most this many. */
  limit: number;
};
/** Values of a score. Booleans count as 0 and 1. */
export type ScoreSource = (ctx: Pick<Ctx, "db">, query: ScoreQuery) => number[];

/** Scores of traces, by the time at which they were given. Categories and texts have no value. */
export const scoresOfTraces: ScoreSource = ({ db }, { workspaceId, deploymentId, name, since, until, limit }) =>
  db
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
