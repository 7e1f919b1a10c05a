import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const STATUSES = ["active", "suspended", "deleted"] as const;

export const workspaces = sqliteTable("workspaces", {
  id: text("id").primaryKey(),
  name: text("name").notNull().unique(),
  status: text("status", { enum: STATUSES }).notNull(),
  paymentCustomerId: text("payment_customer_id").notNull().unique(),
  metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>().notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type WorkspaceRow = typeof workspaces.$inferSelect;
