import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { workspaces } from "../../access/workspaces/table.ts";

export const STATUSES = ["creating", "ready", "stopping", "stopped", "failed", "expired"] as const;

export type Mount = { volumeId: string; name: string; mountPath: string; readOnly: boolean };

export const sessions = sqliteTable("sessions", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  name: text("name"),
  status: text("status", { enum: STATUSES }).notNull(),
  /** Sealed. Empty without variables, and after the session has ended. */
  env: text("env").notNull(),
  volumes: text("volumes", { mode: "json" }).$type<Mount[]>().notNull(),
  network: integer("network", { mode: "boolean" }).notNull(),
  timeoutSeconds: integer("timeout_seconds").notNull(),
  idleSeconds: integer("idle_seconds").notNull(),
  error: text("error"),
  execCount: integer("exec_count").notNull(),
  expiresAt: integer("expires_at").notNull(),
  usedAt: integer("used_at").notNull(),
  readyAt: integer("ready_at"),
  endedAt: integer("ended_at"),
  removedAt: integer("removed_at"),
  metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>().notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type SessionRow = typeof sessions.$inferSelect;
