import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { workspaces } from "../../access/workspaces/table.ts";

export const STATUSES = ["open", "receiving", "used", "expired", "aborted"] as const;
export const PURPOSES = ["volume", "model", "file"] as const;

/** One file on its way: to a signed URL, or in parts with an API key. */
export const uploads = sqliteTable("uploads", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  purpose: text("purpose", { enum: PURPOSES }).notNull(),
  /** A volume or a model; the id of the file that the parts of `file` become. */
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
  /** Only of the purpose `file`. */
  filePurpose: text("file_purpose"),
  /** Null: the file stays until it is deleted. */
  fileLifetimeMs: integer("file_lifetime_ms"),
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
