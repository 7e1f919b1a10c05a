import { blob, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Metadata } from "../../../lib/schema.ts";
import { workspaces } from "../../access/workspaces/table.ts";

export const vectorStores = sqliteTable("client_vector_stores", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  name: text("name").notNull(),
  metadata: text("metadata", { mode: "json" }).$type<Metadata>().notNull(),
  /** The name of the deployment. */
  embeddingModel: text("embedding_model").notNull(),
  /** The length of the vectors. Null before the first. */
  dimensions: integer("dimensions"),
  expiresDays: integer("expires_days"),
  usedAt: integer("used_at").notNull(),
  /** Set: callers do not see it, and prune.ts removes its chunks, its files and then the row. */
  removedAt: integer("removed_at"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type StoreRow = typeof vectorStores.$inferSelect;

export const FILE_STATUSES = ["in_progress", "completed", "cancelled", "failed"] as const;
export type Attributes = Record<string, string | number | boolean>;
export type FileError = { code: "server_error" | "unsupported_file" | "invalid_file"; message: string };

export const vectorFiles = sqliteTable("client_vector_files", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  storeId: text("store_id")
    .notNull()
    .references(() => vectorStores.id),
  fileId: text("file_id").notNull(),
  batchId: text("batch_id"),
  status: text("status", { enum: FILE_STATUSES }).notNull(),
  error: text("error", { mode: "json" }).$type<FileError>(),
  attributes: text("attributes", { mode: "json" }).$type<Attributes>(),
  maxTokens: integer("max_tokens").notNull(),
  overlapTokens: integer("overlap_tokens").notNull(),
  /** The place in the text at which the next chunk begins. A file that is in progress goes on from there. */
  position: integer("position").notNull(),
  chunkCount: integer("chunk_count").notNull(),
  usageBytes: integer("usage_bytes").notNull(),
  /** Tries in a row that failed without a fault of the file. */
  attempts: integer("attempts").notNull(),
  notBefore: integer("not_before"),
  removedAt: integer("removed_at"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type VectorFileRow = typeof vectorFiles.$inferSelect;

export const vectorChunks = sqliteTable("client_vector_chunks", {
  id: integer("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  storeId: text("store_id")
    .notNull()
    .references(() => vectorStores.id),
  vectorFileId: text("vector_file_id")
    .notNull()
    .references(() => vectorFiles.id),
  /** 32-bit floats of length 1. */
  vector: blob("vector", { mode: "buffer" }).notNull(),
  text: text("text").notNull(),
});
