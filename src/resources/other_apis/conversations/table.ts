import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Metadata } from "../../../lib/schema.ts";
import { workspaces } from "../../access/workspaces/table.ts";

export const clientConversations = sqliteTable("client_conversations", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  name: text("name"),
  metadata: text("metadata", { mode: "json" }).$type<Metadata>().notNull(),
  itemCount: integer("item_count").notNull(),
  itemBytes: integer("item_bytes").notNull(),
  /** Set: callers do not see it, and prune.ts removes its items and then the row. */
  removedAt: integer("removed_at"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type ConversationRow = typeof clientConversations.$inferSelect;

export const clientItems = sqliteTable("client_items", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  conversationId: text("conversation_id")
    .notNull()
    .references(() => clientConversations.id),
  /** Its place in the order of the conversation. */
  position: integer("position").notNull(),
  /** The item that it follows. Several items that follow one are branches. */
  parentId: text("parent_id"),
  model: text("model"),
  createdAt: integer("created_at").notNull(),
  /** JSON of a `StoredItem` (stored_item.ts). */
  item: text("item").notNull(),
});
export type ItemRow = typeof clientItems.$inferSelect;
