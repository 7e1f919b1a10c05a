/** Removes traces by age, and those of deleted workspaces, in small commits. */
import { and, eq, isNull, lt, notExists, type SQL, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { DAY_MS } from "../../lib/units.ts";
import { gradually } from "../../platform/db/gradually.ts";
import { deployments } from "../deployments/table.ts";
import { workspaces } from "../workspaces/table.ts";
import { flush } from "./flush.ts";
import { removeRows } from "./remove.ts";
import { conversations, traces } from "./table.ts";

/** Each deployment has its own retention. Rollouts and traces from outside have `traces.retention_days`. */
export async function prune(ctx: Ctx) {
  flush(ctx);
  const now = ctx.clock.now();
  const { id, captureRetentionDays: days } = deployments;
  for (const each of ctx.db.select({ id, days }).from(deployments).all())
    await removeWhere(ctx, and(eq(traces.deploymentId, each.id), lt(traces.createdAt, now - each.days * DAY_MS)));
  const before = now - ctx.config.traces.retention_days * DAY_MS;
  await removeWhere(ctx, and(isNull(traces.deploymentId), lt(traces.createdAt, before)));
  const deleted = ctx.db.select({ id: workspaces.id }).from(workspaces).where(eq(workspaces.status, "deleted")).all();
  for (const each of deleted) {
    await removeWhere(ctx, eq(traces.workspaceId, each.id));
    await removeConversations(ctx, eq(conversations.workspaceId, each.id));
  }
  await removeConversations(ctx, lt(conversations.lastAt, now - DAY_MS));
}

const removeWhere = (ctx: Ctx, where: SQL | undefined) =>
  gradually(ctx.db, (tx, rows) =>
    removeRows(tx, tx.select({ seq: traces.seq }).from(traces).where(where).limit(rows).all()),
  );

/** A conversation goes with its last trace. */
const removeConversations = (ctx: Ctx, where: SQL) =>
  gradually(ctx.db, (tx, rows) => {
    const { workspaceId, id } = conversations;
    const left = tx
      .select({ one: sql`1` })
      .from(traces)
      .where(and(eq(traces.workspaceId, workspaceId), eq(traces.conversationId, id)));
    const empty = tx
      .select({ workspaceId, id })
      .from(conversations)
      .where(and(where, notExists(left)))
      .limit(rows)
      .all();
    for (const each of empty)
      tx.delete(conversations)
        .where(and(eq(workspaceId, each.workspaceId), eq(id, each.id)))
        .run();
    return empty.length;
  });
