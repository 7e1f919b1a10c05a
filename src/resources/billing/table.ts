import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { workspaces } from "../workspaces/table.ts";

export const billingAccounts = sqliteTable("billing_accounts", {
  workspaceId: text("workspace_id")
    .primaryKey()
    .references(() => workspaces.id),
  spentMicros: integer("spent_micros").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
