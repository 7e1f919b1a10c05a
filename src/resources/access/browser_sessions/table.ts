import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { apiKeys } from "../api_keys/table.ts";
import { workspaces } from "../workspaces/table.ts";

export const METHODS = ["key", "password", "oidc"] as const;

export const browserSessions = sqliteTable("browser_sessions", {
  id: text("id").primaryKey(),
  hash: text("hash").notNull().unique(), // of the token in the cookie
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  keyId: text("key_id")
    .notNull()
    .references(() => apiKeys.id, { onDelete: "cascade" }),
  createdAt: integer("created_at").notNull(),
  lastUsedAt: integer("last_used_at").notNull(),
  /** The session ends at this time at the latest. */
  expiresAt: integer("expires_at").notNull(),
  /** The user who signed in; null: the session was made from the key of a service. */
  userId: text("user_id"),
  method: text("method", { enum: METHODS }).notNull(),
  /** The client at sign-in, so that its user can tell sessions apart. */
  address: text("address"),
  agent: text("agent"),
});
export type BrowserSessionRow = typeof browserSessions.$inferSelect;
