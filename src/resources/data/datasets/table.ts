import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { FORMATS } from "../../../lib/rows/format.ts";
import type { Detected } from "../../../lib/rows/shaping.ts";
import { SOURCE_TYPES, type Source } from "../../../lib/source.ts";
import { workspaces } from "../../access/workspaces/table.ts";

export const DATASET_SOURCES = ["upload", ...SOURCE_TYPES] as const;
export const TRIGGERS = ["manual", "job_pin", "auto"] as const;
export type Trigger = (typeof TRIGGERS)[number];
export const RESOLUTION_STATUSES = ["pending", "running", "completed", "failed", "cancelled"] as const;

export const datasets = sqliteTable("datasets", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  name: text("name").notNull(),
  sourceType: text("source_type", { enum: DATASET_SOURCES }).notNull(),
  /** Null for a stream. Never contains a credential. */
  source: text("source", { mode: "json" }).$type<Source>(),
  format: text("format", { enum: FORMATS }),
  headRow: integer("head_row").notNull(),
  liveRows: integer("live_rows").notNull(),
  /** Size of the log. */
  bytes: integer("bytes").notNull(),
  autoSnapshotRows: integer("auto_snapshot_rows"),
  snapshotCount: integer("snapshot_count").notNull(),
  /** Head row of the newest snapshot. */
  snapshotHeadRow: integer("snapshot_head_row").notNull(),
  /** Hash of the uploaded file. Null after the first append, because the content is another then. */
  contentSha256: text("content_sha256"),
  /** The file and the shape of the upload. Null for other datasets. */
  detected: text("detected", { mode: "json" }).$type<Detected>(),
  metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>().notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type DatasetRow = typeof datasets.$inferSelect;

export const datasetSnapshots = sqliteTable(
  "dataset_snapshots",
  {
    datasetId: text("dataset_id")
      .notNull()
      .references(() => datasets.id, { onDelete: "cascade" }),
    number: integer("number").notNull(),
    headRow: integer("head_row").notNull(),
    rowCount: integer("row_count").notNull(),
    /** Size of the live rows. */
    bytes: integer("bytes").notNull(),
    sha256: text("sha256").notNull(),
    trigger: text("trigger", { enum: TRIGGERS }).notNull(),
    jobId: text("job_id"),
    note: text("note"),
    createdAt: integer("created_at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.datasetId, t.number] })],
);
export type SnapshotRow = typeof datasetSnapshots.$inferSelect;

/** A pinned dataset cannot be deleted, because a live job reads it. */
export const datasetPins = sqliteTable(
  "dataset_pins",
  {
    jobId: text("job_id").notNull(),
    datasetId: text("dataset_id")
      .notNull()
      .references(() => datasets.id),
    number: integer("number").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.jobId, t.datasetId] })],
);

export const datasetResolutions = sqliteTable("dataset_resolutions", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  datasetId: text("dataset_id")
    .notNull()
    .references(() => datasets.id, { onDelete: "cascade" }),
  status: text("status", { enum: RESOLUTION_STATUSES }).notNull(),
  jobId: text("job_id"),
  rows: integer("rows").notNull(),
  bytes: integer("bytes").notNull(),
  totalRows: integer("total_rows"),
  snapshotNumber: integer("snapshot_number"),
  error: text("error", { mode: "json" }).$type<{ code: string; message: string; param: string | null }>(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
  finishedAt: integer("finished_at"),
});
export type ResolutionRow = typeof datasetResolutions.$inferSelect;
