import { integer, real, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { ModelShape } from "../../workers/protocol.ts";
import { workspaces } from "../workspaces/table.ts";

export const STATUSES = ["pending", "downloading", "ready", "failed", "missing", "deleted"] as const;
export const SOURCES = ["builtin", "folder", "hub", "upload", "training_job"] as const;
export type ModelSource = (typeof SOURCES)[number];

export const models = sqliteTable("models", {
  id: text("id").primaryKey(),
  /** Null: belongs to the installation and is seen by every workspace. */
  workspaceId: text("workspace_id").references(() => workspaces.id),
  name: text("name").notNull(),
  status: text("status", { enum: STATUSES }).notNull(),
  source: text("source", { enum: SOURCES }).notNull(),
  /** Below the data directory; null while there is no file. */
  path: text("path"),
  format: text("format").notNull(),
  baseModel: text("base_model"),
  baseModelId: text("base_model_id"),
  architecture: text("architecture"),
  parameters: integer("parameters"),
  contextLength: integer("context_length"),
  quantization: text("quantization"),
  sizeBytes: integer("size_bytes"),
  sha256: text("sha256"),
  /** With the size: whether the file is still the one that was inspected. */
  fileMtimeMs: integer("file_mtime_ms"),
  shape: text("shape", { mode: "json" }).$type<ModelShape>(),
  hubFile: text("hub_file"),
  jobId: text("job_id"),
  /** Of a job's models: what it was made of, and what it is: `adapter`, `model`, or an export. */
  checkpointId: text("checkpoint_id"),
  checkpointStep: integer("checkpoint_step"),
  variant: text("variant"),
  error: text("error"),
  progress: real("progress"),
  metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>().notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type ModelRow = typeof models.$inferSelect;
