/** Removes conversations in small commits: first they are marked, then their items go, then their rows. */
import { and, eq, inArray, isNotNull, isNull, lt, type SQL } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { clientConversations, clientItems } from "./table.ts";

const { id, removedAt, updatedAt, workspaceId } = clientConversations;

const mark = (ctx: Ctx, where: SQL) =>
  gradually(ctx.db, (tx, rows) => {
    const some = tx
      .select({ id })
      .from(clientConversations)
      .where(and(isNull(removedAt), where))
      .limit(rows);
    const change = { removedAt: ctx.clock.now() };
    const marked = tx.update(clientConversations).set(change).where(inArray(id, some)).returning({ id }).all();
    return marked.length;
  });

async function sweep(ctx: Ctx) {
  await gradually(ctx.db, (tx, rows) => {
    const some = tx
      .select({ id: clientItems.id })
      .from(clientItems)
      .innerJoin(clientConversations, eq(clientItems.conversationId, id))
      .where(isNotNull(removedAt))
      .limit(rows);
    return tx.delete(clientItems).where(inArray(clientItems.id, some)).returning({ id: clientItems.id }).all().length;
  });
  await gradually(ctx.db, (tx, rows) => {
    const some = tx.select({ id }).from(clientConversations).where(isNotNull(removedAt)).limit(rows);
    return tx.delete(clientConversations).where(inArray(id, some)).returning({ id }).all().length;
  });
}

/** `before`: those that have not changed since then go too. */
export async function prune(ctx: Ctx, before?: number) {
  if (before !== undefined) await mark(ctx, lt(updatedAt, before));
  await sweep(ctx);
}

/** For a workspace that is deleted. */
export async function removeAll(ctx: Ctx, workspace: string) {
  await mark(ctx, eq(workspaceId, workspace));
  await sweep(ctx);
}
