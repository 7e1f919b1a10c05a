import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** The outbox. Append-only; `seq` is the order every consumer sees. */
export const events = sqliteTable("events", {
  seq: integer("seq").primaryKey({ autoIncrement: true }),
  id: text("id").notNull().unique(),
  workspaceId: text("workspace_id").notNull(),
  type: text("type").notNull(),
  subjectId: text("subject_id").notNull(),
  data: text("data", { mode: "json" }).$type<unknown>().notNull(),
  createdAt: integer("created_at").notNull(),
});
export type EventRow = typeof events.$inferSelect;

export const eventCursors = sqliteTable("event_cursors", {
  consumer: text("consumer").primaryKey(),
  seq: integer("seq").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
