import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { workspaces } from "../../access/workspaces/table.ts";

export const volumes = sqliteTable("volumes", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  name: text("name").notNull(),
  totalBytes: integer("total_bytes").notNull(),
  fileCount: integer("file_count").notNull(),
  metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>().notNull(),
  /** A deleted volume is not found any more. The loop removes its files, then the row. */
  deletedAt: integer("deleted_at"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type VolumeRow = typeof volumes.$inferSelect;

export const volumeFiles = sqliteTable(
  "volume_files",
  {
    volumeId: text("volume_id")
      .notNull()
      .references(() => volumes.id),
    path: text("path").notNull(),
    sizeBytes: integer("size_bytes").notNull(),
    sha256: text("sha256").notNull(),
    contentType: text("content_type").notNull(),
    /** Each version has a key of its own, so readers of the previous version can finish. */
    storageKey: text("storage_key").notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.volumeId, t.path] })],
);
export type VolumeFileRow = typeof volumeFiles.$inferSelect;
