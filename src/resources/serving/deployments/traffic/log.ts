/**
 * The log of a deployment: its starts and ends, its replicas and adapters, and requests that failed. It has no prompt and
 * no answer. The newest 1,000 lines of each deployment are kept.
 */
import { and, desc, eq, inArray, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { type Tx, write } from "../../../../platform/db/db.ts";
import { type DeploymentRow, deploymentLogs, deployments, LOG_LEVELS, type LogRow } from "../table.ts";
import { type LogQuery, presentLine } from "./schema.ts";

export const MOST_LINES = 1_000;
const MOST_CHARACTERS = 2_000;
/** Old lines are removed once in so many lines of all deployments. */
const PRUNE_EVERY = 64;

type Level = LogRow["level"];

/** Does nothing for a deployment that is deleted. */
export const addLine = (ctx: Ctx, deploymentId: string, level: Level, text: string) =>
  write(ctx.db, (tx) => {
    const row = tx.select({ id: deployments.id }).from(deployments).where(eq(deployments.id, deploymentId)).get();
    if (row) insertLine(tx, { deploymentId, at: ctx.clock.now(), level, text });
  });

/** In a commit that has just changed the deployment. */
export function insertLine(tx: Tx, { text, ...line }: Omit<LogRow, "seq">) {
  const { seq } = tx
    .insert(deploymentLogs)
    .values({ ...line, text: text.slice(0, MOST_CHARACTERS) })
    .returning({ seq: deploymentLogs.seq })
    .get();
  if (seq % PRUNE_EVERY === 0) pruneLines(tx, line.deploymentId);
}

function pruneLines(tx: Tx, deploymentId: string) {
  const isOf = eq(deploymentLogs.deploymentId, deploymentId);
  const newest = tx
    .select({ seq: deploymentLogs.seq })
    .from(deploymentLogs)
    .where(isOf)
    .orderBy(desc(deploymentLogs.seq));
  const [first] = newest.limit(1).offset(MOST_LINES).all();
  if (first)
    tx.delete(deploymentLogs)
      .where(and(isOf, sql`${deploymentLogs.seq} <= ${first.seq}`))
      .run();
}

export function readLog(ctx: Ctx, { id }: DeploymentRow, { limit, q, level }: LogQuery) {
  const rows = ctx.db
    .select()
    .from(deploymentLogs)
    .where(
      and(
        eq(deploymentLogs.deploymentId, id),
        level === undefined ? undefined : inArray(deploymentLogs.level, LOG_LEVELS.slice(LOG_LEVELS.indexOf(level))),
        q === undefined || q === "" ? undefined : sql`instr(lower(${deploymentLogs.text}), lower(${q})) > 0`,
      ),
    )
    .orderBy(desc(deploymentLogs.seq))
    .limit(limit + 1)
    .all();
  return {
    object: "deployment_log" as const,
    deployment_id: id,
    data: rows.slice(0, limit).map(presentLine),
    has_more: rows.length > limit,
  };
}
