import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Scope } from "../../../context.ts";
import { PRIORITIES } from "../../../lib/chat/priority.ts";
import { workspaces } from "../workspaces/table.ts";

export const STATUSES = ["active", "revoked"] as const;

export const apiKeys = sqliteTable("api_keys", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  name: text("name").notNull(),
  status: text("status", { enum: STATUSES }).notNull(),
  hash: text("hash").notNull().unique(), // Kept after a revocation, so that the key answers `revoked_api_key`.
  prefix: text("prefix").notNull(),
  scopes: text("scopes", { mode: "json" }).$type<Scope[]>().notNull(),
  monthlyBudgetMicros: integer("monthly_budget_micros"),
  metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>().notNull(),
  expiresAt: integer("expires_at"),
  lastUsedAt: integer("last_used_at"),
  revokedAt: integer("revoked_at"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
  /** The key whose budget this one shares. */
  budgetKeyId: text("budget_key_id"),
  /** The default of its requests, and the most urgent one that they may name. Null: normal, and any. */
  priority: text("priority", { enum: PRIORITIES }),
  /** The user that the key belongs to; null: a service. */
  userId: text("user_id"),
  /** A seat stands for its user in browser sessions. It has no secret, and the API of keys does not know it. */
  kind: text("kind", { enum: ["key", "seat"] }).notNull(),
});
export type ApiKeyRow = typeof apiKeys.$inferSelect;
