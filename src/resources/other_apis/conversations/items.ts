/** The items of a conversation: pages, one item, and its removal. */
import { and, asc, desc, eq, inArray, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { invalidCursor } from "../../../http/answer/cursor.ts";
import { AppError } from "../../../lib/errors.ts";
import { MIB } from "../../../lib/units.ts";
import { write } from "../../../platform/db/db.ts";
import { bytesOf } from "./append.ts";
import { clientList, type ItemsQuery, presentItem } from "./schema.ts";
import { mustGet } from "./service.ts";
import { type ConversationRow, clientConversations, clientItems, type ItemRow } from "./table.ts";

const PAGE_BYTES = 4 * MIB;

const rowOf = (ctx: Ctx, { id: conversationId }: ConversationRow, id: string): ItemRow | undefined =>
  ctx.db
    .select()
    .from(clientItems)
    .where(and(eq(clientItems.id, id), eq(clientItems.conversationId, conversationId)))
    .get();

export function mustGetItem(ctx: Ctx, conversation: ConversationRow, id: string): ItemRow {
  const row = rowOf(ctx, conversation, id);
  if (!row)
    throw new AppError("resource_not_found", `No item ${id.slice(0, 80)} in ${conversation.id}`, { param: "id" });
  return row;
}

/** Items by their ids, in the order of the ids. */
export function readItems(ctx: Ctx, ids: readonly string[]): ItemRow[] {
  const rows = ctx.db
    .select()
    .from(clientItems)
    .where(inArray(clientItems.id, [...ids]))
    .all();
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ids.flatMap((id) => byId.get(id) ?? []);
}

/** A page has fewer items than its limit when they are long. */
export function listItems(ctx: Ctx, conversation: ConversationRow, { limit, order, after }: ItemsQuery) {
  const from = after === undefined ? undefined : rowOf(ctx, conversation, after)?.position;
  if (after !== undefined && from === undefined) throw invalidCursor(after, "the id of an item of this conversation");
  const { position } = clientItems;
  const found = ctx.db
    .select({ id: clientItems.id, bytes: sql<number>`octet_length(${clientItems.item})` })
    .from(clientItems)
    .where(
      and(
        eq(clientItems.conversationId, conversation.id),
        from === undefined ? undefined : order === "asc" ? sql`${position} > ${from}` : sql`${position} < ${from}`,
      ),
    )
    .orderBy(order === "asc" ? asc(position) : desc(position))
    .limit(limit + 1)
    .all();
  const shown: string[] = [];
  let bytes = 0;
  for (const item of found.slice(0, limit)) {
    bytes += item.bytes;
    if (shown.length > 0 && bytes > PAGE_BYTES) break;
    shown.push(item.id);
  }
  return clientList({ data: readItems(ctx, shown).map(presentItem), has_more: found.length > shown.length });
}

/** The items that follow it follow its parent from now on. */
export function removeItem(ctx: Ctx, workspaceId: string, id: string, itemId: string): ConversationRow {
  return write(ctx.db, (tx) => {
    const row = mustGet(ctx, workspaceId, id);
    const { parentId, item } = mustGetItem(ctx, row, itemId);
    const follows = and(eq(clientItems.conversationId, id), eq(clientItems.parentId, itemId));
    tx.update(clientItems).set({ parentId }).where(follows).run();
    tx.delete(clientItems).where(eq(clientItems.id, itemId)).run();
    const change = {
      itemCount: row.itemCount - 1,
      itemBytes: row.itemBytes - bytesOf(item),
      updatedAt: ctx.clock.now(),
    };
    tx.update(clientConversations).set(change).where(eq(clientConversations.id, id)).run();
    return { ...row, ...change };
  });
}
