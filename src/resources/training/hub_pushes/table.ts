import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { workspaces } from "../../access/workspaces/table.ts";

/** `model`: the file of a model as it is. The others are made from a checkpoint of a job. */
export const PUSH_VARIANTS = ["adapter", "merged", "gguf", "model"] as const;
export const STATUSES = ["preparing", "pushing", "completed", "failed", "cancelled"] as const;

export type SentFile = { path: string; sha256: string; size: number };
/**
 * A file that is sent in parts. `etags`: of the parts that the hub has. `at`: when the hub gave the addresses, which end
 * some time later.
 */
export type Upload = { oid: string; href: string; parts: string[]; partBytes: number; etags: string[]; at: number };

export const hubPushes = sqliteTable("hub_pushes", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  /** The pushed model. Null: a result of the job. */
  modelId: text("model_id"),
  jobId: text("job_id"),
  checkpointId: text("checkpoint_id"),
  variant: text("variant", { enum: PUSH_VARIANTS }).notNull(),
  quantization: text("quantization").notNull(),
  /** owner/name */
  repo: text("repo").notNull(),
  isPrivate: integer("is_private", { mode: "boolean" }).notNull(),
  status: text("status", { enum: STATUSES }).notNull(),
  bytesTotal: integer("bytes_total").notNull(),
  bytesDone: integer("bytes_done").notNull(),
  /** Files whose content the hub has. */
  sent: text("sent", { mode: "json" }).$type<SentFile[]>().notNull(),
  upload: text("upload", { mode: "json" }).$type<Upload>(),
  url: text("url"),
  commitId: text("commit_id"),
  error: text("error"),
  /** Failures in a row without progress. */
  attempts: integer("attempts").notNull(),
  notBefore: integer("not_before"),
  createdAt: integer("created_at").notNull(),
  completedAt: integer("completed_at"),
  updatedAt: integer("updated_at").notNull(),
});
export type PushRow = typeof hubPushes.$inferSelect;
