import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Metadata } from "../../../lib/schema.ts";
import { workspaces } from "../../access/workspaces/table.ts";

export const clientCompletions = sqliteTable(
  "client_completions",
  {
    /** The model's process makes it. */
    id: text("id").notNull(),
    workspaceId: text("workspace_id")
      .notNull()
      .references(() => workspaces.id),
    model: text("model").notNull(),
    metadata: text("metadata", { mode: "json" }).$type<Metadata>().notNull(),
    createdAt: integer("created_at").notNull(),
    /** JSON of the messages of the request. */
    messages: text("messages").notNull(),
    /** JSON of the answer with the settings of the request. */
    completion: text("completion").notNull(),
  },
  (table) => [primaryKey({ columns: [table.workspaceId, table.id] })],
);
export type CompletionRow = typeof clientCompletions.$inferSelect;
