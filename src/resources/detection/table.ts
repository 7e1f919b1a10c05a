import { integer, primaryKey, real, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { ModelName, Scored } from "../../workers/protocol_detector.ts";
import { workspaces } from "../access/workspaces/table.ts";

export const BATCH_STATUSES = ["queued", "processing", "completed", "cancelled"] as const;

/** Settings and usage of a workspace. Without a row it has the defaults and has used nothing. */
export const detectionAccounts = sqliteTable("detection_accounts", {
  workspaceId: text("workspace_id")
    .primaryKey()
    .references(() => workspaces.id),
  defaultModels: text("default_models", { mode: "json" }).$type<ModelName[]>().notNull(),
  defaultThreshold: real("default_threshold").notNull(),
  /** The share of generated files in the traffic. 0.5 moves no score. */
  prior: real("prior").notNull(),
  cacheEnabled: integer("cache_enabled", { mode: "boolean" }).notNull(),
  creditsSpent: integer("credits_spent").notNull(),
  /** The month of `monthRequests`, in UTC, such as 2026-01. */
  month: text("month").notNull(),
  monthRequests: integer("month_requests").notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type AccountRow = typeof detectionAccounts.$inferSelect;

export type Feedback = { label: "ai" | "real"; comment: string | null; atMs: number };

export const detections = sqliteTable("detections", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id").notNull(),
  imageHash: text("image_hash").notNull(),
  /** Null: not cached. */
  cacheKey: text("cache_key"),
  threshold: real("threshold").notNull(),
  prior: real("prior").notNull(),
  sizeBytes: integer("size_bytes").notNull(),
  scored: text("scored", { mode: "json" }).$type<Scored>().notNull(),
  detectionMs: real("detection_ms").notNull(),
  processingMs: real("processing_ms").notNull(),
  feedback: text("feedback", { mode: "json" }).$type<Feedback>(),
  createdAt: integer("created_at").notNull(),
});
export type DetectionRow = typeof detections.$inferSelect;

export const detectionBatches = sqliteTable("detection_batches", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  status: text("status", { enum: BATCH_STATUSES }).notNull(),
  /** Empty: the default models of the workspace that fit. */
  models: text("models", { mode: "json" }).$type<ModelName[]>().notNull(),
  threshold: real("threshold").notNull(),
  prior: real("prior").notNull(),
  total: integer("total").notNull(),
  successCount: integer("success_count").notNull(),
  failureCount: integer("failure_count").notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
  finishedAt: integer("finished_at"),
  metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>().notNull(),
});
export type BatchRow = typeof detectionBatches.$inferSelect;

/** An item is due until `finishedAt`; then it has a detection or an error. */
export const detectionItems = sqliteTable(
  "detection_items",
  {
    batchId: text("batch_id")
      .notNull()
      .references(() => detectionBatches.id),
    number: integer("number").notNull(),
    /** The caller's id. */
    name: text("name").notNull(),
    /** Null: its bytes are in the batch's file. */
    url: text("url"),
    offset: integer("offset").notNull(),
    sizeBytes: integer("size_bytes").notNull(),
    detectionId: text("detection_id"),
    /** The result was cached. */
    cached: integer("cached", { mode: "boolean" }).notNull(),
    errorCode: text("error_code"),
    error: text("error"),
    finishedAt: integer("finished_at"),
  },
  (table) => [primaryKey({ columns: [table.batchId, table.number] })],
);
export type ItemRow = typeof detectionItems.$inferSelect;
