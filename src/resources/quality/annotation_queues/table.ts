import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Metadata } from "../../../lib/schema.ts";
import { workspaces } from "../../access/workspaces/table.ts";
import type { AnnotationValue, Input, LabelField, Outcome, Source } from "./label_schema.ts";

export const MODES = ["single", "pairwise"] as const;
export const ITEM_STATUSES = ["pending", "appending", "completed", "skipped"] as const;

export const annotationQueues = sqliteTable("annotation_queues", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  name: text("name").notNull(),
  mode: text("mode", { enum: MODES }).notNull(),
  instructions: text("instructions"),
  labels: text("labels", { mode: "json" }).$type<LabelField[]>().notNull(),
  annotatorsPerItem: integer("annotators_per_item").notNull(),
  leaseSeconds: integer("lease_seconds").notNull(),
  /** Gets the rows. The dataset may have been deleted meanwhile. */
  datasetId: text("dataset_id"),
  metadata: text("metadata", { mode: "json" }).$type<Metadata>().notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
  /** Items up to this id are in the sums of annotations. */
  summedUntil: text("summed_until").notNull().default(""),
});
export type QueueRow = typeof annotationQueues.$inferSelect;

export const annotationItems = sqliteTable("annotation_items", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  /** The queue may have been deleted: its items go later, in small commits. */
  queueId: text("queue_id").notNull(),
  status: text("status", { enum: ITEM_STATUSES }).notNull(),
  source: text("source", { mode: "json" }).$type<Source>().notNull(),
  input: text("input", { mode: "json" }).$type<Input>().notNull(),
  /** Two texts for a pairwise queue, else none or one. */
  outputs: text("outputs", { mode: "json" }).$type<string[]>().notNull(),
  reference: text("reference"),
  /** Without skips. */
  annotationCount: integer("annotation_count").notNull(),
  outcome: text("outcome", { mode: "json" }).$type<Outcome>(),
  /** The dataset that the row goes to. Null if the item appends no row. */
  datasetId: text("dataset_id"),
  /** Set in the commit that moves the head of the dataset over the row. */
  datasetRowId: integer("dataset_row_id"),
  error: text("error", { mode: "json" }).$type<{ code: string; message: string }>(),
  metadata: text("metadata", { mode: "json" }).$type<Metadata>().notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
  completedAt: integer("completed_at"),
});
export type ItemRow = typeof annotationItems.$inferSelect;

/** From a trace or an item of an experiment to the annotation items with its content. */
export const annotationItemSources = sqliteTable(
  "annotation_item_sources",
  {
    sourceId: text("source_id").notNull(),
    itemId: text("item_id")
      .notNull()
      .references(() => annotationItems.id, { onDelete: "cascade" }),
  },
  (t) => [primaryKey({ columns: [t.sourceId, t.itemId] })],
);

/** One row for each annotator of an item. */
export const annotations = sqliteTable(
  "annotations",
  {
    itemId: text("item_id")
      .notNull()
      .references(() => annotationItems.id, { onDelete: "cascade" }),
    annotator: text("annotator").notNull(),
    queueId: text("queue_id").notNull(),
    /** The key that sent it. */
    keyId: text("key_id").notNull(),
    skipped: integer("skipped", { mode: "boolean" }).notNull(),
    value: text("value", { mode: "json" }).$type<AnnotationValue>().notNull(),
    comment: text("comment"),
    createdAt: integer("created_at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.itemId, t.annotator] })],
);
export type AnnotationRow = typeof annotations.$inferSelect;

export const annotationReservations = sqliteTable(
  "annotation_reservations",
  {
    itemId: text("item_id")
      .notNull()
      .references(() => annotationItems.id, { onDelete: "cascade" }),
    annotator: text("annotator").notNull(),
    queueId: text("queue_id").notNull(),
    leaseMs: integer("lease_ms").notNull(),
    /** Counts after a restart only: a running server measures the lease by its steady clock. */
    expiresAt: integer("expires_at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.itemId, t.annotator] })],
);
export type ReservationRow = typeof annotationReservations.$inferSelect;

/** Counts that are kept in the commit of their change (see sums.ts). Triggers keep those of `status`. */
export const annotationSums = sqliteTable(
  "annotation_sums",
  {
    /** The queue may have been deleted: its sums go later, in small commits. */
    queueId: text("queue_id").notNull(),
    /** Empty for sums of the whole queue. */
    label: text("label").notNull(),
    kind: text("kind").notNull(),
    a: text("a").notNull(),
    b: text("b").notNull(),
    n: integer("n").notNull(),
  },
  (t) => [primaryKey({ columns: [t.queueId, t.label, t.kind, t.a, t.b] })],
);
