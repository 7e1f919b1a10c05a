import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const KINDS = [
  "datasets",
  "models",
  "code_artifacts",
  "checkpoints",
  "volumes",
  "files",
  "chats",
  "prefixes",
] as const;
export type Kind = (typeof KINDS)[number];

/**
 * Sums that triggers update (0013_growth.sql, 0051_client_files.sql, 0079_file_parts.sql, 0086_stored_chats.sql, 0090_prefix_stores.sql, 0092_rollouts.sql) in the commit that changes
 * their rows. No code writes here.
 */
export const storageUsage = sqliteTable(
  "storage_usage",
  {
    workspaceId: text("workspace_id").notNull(),
    kind: text("kind", { enum: KINDS }).notNull(),
    bytes: integer("bytes").notNull(),
  },
  (table) => [primaryKey({ columns: [table.workspaceId, table.kind] })],
);
