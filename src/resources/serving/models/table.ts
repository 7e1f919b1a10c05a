import { integer, real, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { ModelShape } from "../../../workers/protocol.ts";
import { workspaces } from "../../access/workspaces/table.ts";

export const STATUSES = ["pending", "downloading", "ready", "failed", "missing", "deleted"] as const;
export const SOURCES = ["builtin", "folder", "hub", "upload", "training_job", "quantized"] as const;
export type ModelSource = (typeof SOURCES)[number];

export const models = sqliteTable("models", {
  id: text("id").primaryKey(),
  /** Null: the model belongs to the installation, and every workspace sees it. */
  workspaceId: text("workspace_id").references(() => workspaces.id),
  name: text("name").notNull(),
  status: text("status", { enum: STATUSES }).notNull(),
  source: text("source", { enum: SOURCES }).notNull(),
  /** Below the data directory; null without a file. */
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
  /** With the size, it identifies the file that was inspected. */
  fileMtimeMs: integer("file_mtime_ms"),
  shape: text("shape", { mode: "json" }).$type<ModelShape>(),
  /** The name of a pulled model on the hub. */
  hubName: text("hub_name"),
  hubFile: text("hub_file"),
  jobId: text("job_id"),
  /** For models of a job: their checkpoint, and their variant (`adapter`, `model`, or an export). */
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
