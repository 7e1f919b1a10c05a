/** Adds items to a conversation, in the commit of what they come from. */
import { and, desc, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { MIB } from "../../../lib/units.ts";
import type { Tx } from "../../../platform/db/db.ts";
import { preparedInsert } from "../../../platform/db/row.ts";
import { mustHaveRoom } from "../../data/storage_usage/service.ts";
import type { KnownItem } from "../responses/items.ts";
import { prefixOf, storedItem } from "./stored_item.ts";
import { type ConversationRow, clientConversations, clientItems, type ItemRow } from "./table.ts";

const MAX_ITEMS = 10_000;
const MAX_BYTES = 32 * MIB;

export type NewEntry = {
  item: KnownItem;
  /** Absent: a new one. */
  id?: string;
  /** Undefined: the item before it in the list, for the first one the newest item. Null: none. */
  parentId?: string | null | undefined;
  model?: string | null;
};

const insert = preparedInsert(clientItems);

/** Throws if the texts that this commit has stored are more than the workspace may have. */
export const mustFit = (ctx: Pick<Ctx, "config">, tx: Tx, workspaceId: string) =>
  mustHaveRoom({ db: tx, config: ctx.config }, { workspaceId, kind: "chats" }, { bytes: 0 });

export const bytesOf = (text: string) => Buffer.byteLength(text);

type Appended = { conversation: ConversationRow; items: ItemRow[] };

export function append(ctx: Ctx, tx: Tx, conversation: ConversationRow, entries: readonly NewEntry[]): Appended {
  const { id: conversationId, workspaceId } = conversation;
  const now = ctx.clock.now();
  const newest = newestOf(tx, conversationId);
  let position = newest?.position ?? 0;
  let before = newest?.id ?? null;
  const rows = entries.map(({ item, id, parentId, model = null }, i): ItemRow => {
    if (parentId) mustHaveItem(tx, conversation, parentId, i);
    const row = {
      id: id ?? newId(prefixOf(item), now),
      workspaceId,
      conversationId,
      position: ++position,
      parentId: parentId === undefined ? before : parentId,
      model,
      createdAt: now,
      item: JSON.stringify(storedItem(item)),
    };
    before = row.id;
    return row;
  });
  if (rows.length === 0) return { conversation, items: rows };
  const itemCount = conversation.itemCount + rows.length;
  const itemBytes = rows.reduce((sum, { item }) => sum + bytesOf(item), conversation.itemBytes);
  if (itemCount > MAX_ITEMS) throw full(conversationId, `${MAX_ITEMS} items`);
  if (itemBytes > MAX_BYTES) throw full(conversationId, `${MAX_BYTES} bytes`);
  for (const row of rows) insert(tx, row);
  const change = { itemCount, itemBytes, updatedAt: now };
  tx.update(clientConversations).set(change).where(eq(clientConversations.id, conversationId)).run();
  mustFit(ctx, tx, workspaceId);
  return { conversation: { ...conversation, ...change }, items: rows };
}

const newestOf = (tx: Tx, conversationId: string) =>
  tx
    .select({ id: clientItems.id, position: clientItems.position })
    .from(clientItems)
    .where(eq(clientItems.conversationId, conversationId))
    .orderBy(desc(clientItems.position))
    .limit(1)
    .get();

export const hasItem = (db: Ctx["db"], conversationId: string, id: string): boolean =>
  db
    .select({ id: clientItems.id })
    .from(clientItems)
    .where(and(eq(clientItems.id, id), eq(clientItems.conversationId, conversationId)))
    .get() !== undefined;

function mustHaveItem(tx: Tx, { id }: ConversationRow, parentId: string, index: number) {
  if (hasItem(tx, id, parentId)) return;
  const message = `items.${index}.parent_id: no item ${parentId.slice(0, 80)} in ${id}`;
  throw new AppError("schema", message, { param: `/items/${index}/parent_id` });
}

const full = (id: string, most: string) =>
  new AppError("unsupported_state", `${id} would have more than ${most}: create another conversation`);
