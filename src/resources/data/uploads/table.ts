import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { workspaces } from "../../access/workspaces/table.ts";

export const STATUSES = ["open", "receiving", "used", "expired", "aborted"] as const;
export const PURPOSES = ["volume", "model"] as const;

/** A signed URL that uploads one file. */
export const uploads = sqliteTable("uploads", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  purpose: text("purpose", { enum: PURPOSES }).notNull(),
  /** A volume or a model. */
  targetId: text("target_id").notNull(),
  /** Uploads that were created by one request have the same group. */
  groupId: text("group_id"),
  path: text("path").notNull(),
  status: text("status", { enum: STATUSES }).notNull(),
  maxBytes: integer("max_bytes").notNull(),
  /** The announced size and hash. Both are part of the signature. */
  sizeBytes: integer("size_bytes"),
  sha256: text("sha256"),
  contentType: text("content_type"),
  /** Null for a file that is sent in one piece. */
  partCount: integer("part_count"),
  /** The storage's name for a file that is sent to it directly. */
  staging: text("staging"),
  receivedBytes: integer("received_bytes"),
  receivedSha256: text("received_sha256"),
  expiresAt: integer("expires_at").notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type UploadRow = typeof uploads.$inferSelect;

export const uploadParts = sqliteTable(
  "upload_parts",
  {
    uploadId: text("upload_id")
      .notNull()
      .references(() => uploads.id, { onDelete: "cascade" }),
    number: integer("number").notNull(),
    sizeBytes: integer("size_bytes").notNull(),
    sha256: text("sha256").notNull(),
    storageKey: text("storage_key").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.uploadId, t.number] })],
);
export type UploadPartRow = typeof uploadParts.$inferSelect;
