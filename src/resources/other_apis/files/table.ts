import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { workspaces } from "../../access/workspaces/table.ts";

/** Purposes that a client may give. */
export const UPLOAD_PURPOSES = ["fine-tune", "batch", "evals", "user_data", "assistants", "vision"] as const;
export const PURPOSES = [...UPLOAD_PURPOSES, "batch_output", "fine-tune-results"] as const;

export const clientFiles = sqliteTable("client_files", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  filename: text("filename").notNull(),
  purpose: text("purpose", { enum: PURPOSES }).notNull(),
  sizeBytes: integer("size_bytes").notNull(),
  sha256: text("sha256").notNull(),
  storageKey: text("storage_key").notNull(),
  expiresAt: integer("expires_at"),
  createdAt: integer("created_at").notNull(),
});
export type ClientFileRow = typeof clientFiles.$inferSelect;
