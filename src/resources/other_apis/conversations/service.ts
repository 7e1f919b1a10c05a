/** Conversations in the format of OpenAI: items in their order, which may branch. */
import { and, eq, isNull, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { mustBeOpen } from "../../data/storage_usage/service.ts";
import { itemsOf } from "../responses/service.ts";
import { append, mustFit, type NewEntry } from "./append.ts";
import { type CreateConversation, clientList, type NewItem, present, type UpdateConversation } from "./schema.ts";
import { type ConversationRow, clientConversations, type ItemRow } from "./table.ts";

const insert = preparedInsert(clientConversations);
const byId = preparedRow(
  clientConversations,
  and(
    eq(clientConversations.id, sql.placeholder("id")),
    eq(clientConversations.workspaceId, sql.placeholder("workspaceId")),
    isNull(clientConversations.removedAt),
  ),
);

export const find = (ctx: Pick<Ctx, "db">, workspaceId: string, id: string): ConversationRow | undefined =>
  byId(ctx.db, { id, workspaceId });

export function mustGet(ctx: Pick<Ctx, "db">, workspaceId: string, id: string, param = "id"): ConversationRow {
  const row = find(ctx, workspaceId, id);
  if (row) return row;
  const message = `No conversation ${id.slice(0, 80)}. Conversations of traces are at /v1/traces/conversations`;
  throw new AppError("resource_not_found", message, { param });
}

export const list = (ctx: Ctx, workspaceId: string, query: PageQuery) => {
  const isShown = and(eq(clientConversations.workspaceId, workspaceId), isNull(clientConversations.removedAt));
  return clientList(page(ctx.db, clientConversations, isShown, query, present));
};

/** A reference becomes the item that it names. Beside it stand the fields that only a conversation has. */
function entriesOf(ctx: Ctx, workspaceId: string, items: readonly NewItem[]): NewEntry[] {
  const known = itemsOf(ctx, workspaceId, items, "items");
  return known.map((item, i) => ({ item, parentId: items[i]?.parent_id, model: items[i]?.model ?? null }));
}

export function create(ctx: Ctx, workspaceId: string, { items, metadata, name }: CreateConversation): ConversationRow {
  mustBeOpen(ctx, { workspaceId, kind: "chats" });
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const row: ConversationRow = {
      id: newId("conv", now),
      workspaceId,
      name: name ?? null,
      metadata: metadata ?? {},
      itemCount: 0,
      itemBytes: 0,
      removedAt: null,
      createdAt: now,
      updatedAt: now,
    };
    insert(tx, row);
    mustFit(ctx, tx, workspaceId);
    return append(ctx, tx, row, entriesOf(ctx, workspaceId, items ?? [])).conversation;
  });
}

export function update(ctx: Ctx, workspaceId: string, id: string, change: UpdateConversation): ConversationRow {
  return write(ctx.db, (tx) => {
    const row = mustGet(ctx, workspaceId, id);
    const { name = row.name } = change;
    const metadata = change.metadata === undefined ? row.metadata : (change.metadata ?? {});
    const changed = { name, metadata, updatedAt: ctx.clock.now() };
    tx.update(clientConversations).set(changed).where(eq(clientConversations.id, id)).run();
    mustFit(ctx, tx, workspaceId);
    return { ...row, ...changed };
  });
}

export function addItems(ctx: Ctx, workspaceId: string, id: string, items: readonly NewItem[]): ItemRow[] {
  mustBeOpen(ctx, { workspaceId, kind: "chats" });
  return write(
    ctx.db,
    (tx) => append(ctx, tx, mustGet(ctx, workspaceId, id), entriesOf(ctx, workspaceId, items)).items,
  );
}

/** Callers do not see it any more. Its items go in small commits, in prune.ts. */
export function remove(ctx: Ctx, workspaceId: string, id: string): ConversationRow {
  const row = mustGet(ctx, workspaceId, id);
  const removedAt = ctx.clock.now();
  write(
    ctx.db,
    (tx) => void tx.update(clientConversations).set({ removedAt }).where(eq(clientConversations.id, id)).run(),
  );
  ctx.wake("conversations.prune");
  return row;
}
