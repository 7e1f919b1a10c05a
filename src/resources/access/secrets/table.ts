import { integer, sqliteTable, text, unique } from "drizzle-orm/sqlite-core";
import { workspaces } from "../workspaces/table.ts";

export const secrets = sqliteTable(
  "secrets",
  {
    id: text("id").primaryKey(),
    workspaceId: text("workspace_id")
      .notNull()
      .references(() => workspaces.id),
    name: text("name").notNull(),
    sealed: text("sealed").notNull(),
    scopeHost: text("scope_host"),
    metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>().notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (t) => [unique().on(t.workspaceId, t.name)],
);
export type SecretRow = typeof secrets.$inferSelect;
