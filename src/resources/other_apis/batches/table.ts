import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { workspaces } from "../../access/workspaces/table.ts";

export const STATUSES = [
  ...["validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"],
] as const;
export const ENDPOINTS = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses"] as const;
/** The route of requests in the format of Anthropic. Their batches have routes of their own. */
export const MESSAGES = "/v1/messages";
const ALL_ENDPOINTS = [...ENDPOINTS, MESSAGES] as const;
export type Endpoint = (typeof ALL_ENDPOINTS)[number];

/** A fault of the input file. `line` counts from 1. */
export type BatchError = { code: string; line: number | null; message: string; param: string | null };

export const inferenceBatches = sqliteTable("inference_batches", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  keyId: text("key_id"),
  status: text("status", { enum: STATUSES }).notNull(),
  endpoint: text("endpoint", { enum: ALL_ENDPOINTS }).notNull(),
  inputFileId: text("input_file_id").notNull(),
  inputKey: text("input_key").notNull(),
  metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>(),
  errors: text("errors", { mode: "json" }).$type<BatchError[]>(),
  total: integer("total").notNull(),
  completed: integer("completed").notNull(),
  failed: integer("failed").notNull(),
  inputTokens: integer("input_tokens").notNull(),
  outputTokens: integer("output_tokens").notNull(),
  outputFileId: text("output_file_id"),
  errorFileId: text("error_file_id"),
  expiresAt: integer("expires_at").notNull(),
  inProgressAt: integer("in_progress_at"),
  finalizingAt: integer("finalizing_at"),
  cancellingAt: integer("cancelling_at"),
  finishedAt: integer("finished_at"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type BatchRow = typeof inferenceBatches.$inferSelect;

/** One line of the input. The request stays in the input file; the result stays here until the batch ends. */
export const inferenceBatchItems = sqliteTable(
  "inference_batch_items",
  {
    batchId: text("batch_id")
      .notNull()
      .references(() => inferenceBatches.id, { onDelete: "cascade" }),
    number: integer("number").notNull(),
    customId: text("custom_id").notNull(),
    byteOffset: integer("byte_offset").notNull(),
    byteLength: integer("byte_length").notNull(),
    /** The line of the output or error file. */
    result: text("result"),
    failed: integer("failed", { mode: "boolean" }).notNull(),
    finishedAt: integer("finished_at"),
  },
  (t) => [primaryKey({ columns: [t.batchId, t.number] })],
);
export type BatchItemRow = typeof inferenceBatchItems.$inferSelect;
