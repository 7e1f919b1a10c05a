import { z } from "zod";
import { PageQuery } from "../../../http/answer/pagination.ts";
import { settings } from "../../../http/settings.ts";
import { DateTime, isoOrNull, Label, later, Metadata } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { Input, LabelField, LabelFields, LabelValue, PREFERENCES, SOURCES } from "./label_schema.ts";
import { type AnnotationRow, annotationQueues, ITEM_STATUSES, type ItemRow, MODES, type QueueRow } from "./table.ts";

export const MAX_NEW_ITEMS = 1_000;
const MAX_DATASET_ROWS = 10_000;
const MAX_OUTPUT = 1_000_000;

const LeaseSeconds = z
  .int()
  .min(10)
  .max(86_400)
  .describe("How long `next` reserves an item for one annotator, in seconds");
/** Settings of a queue: each is declared here, and nowhere else. Its column is in the table. */
export const SETTINGS = settings(annotationQueues, {
  name: { input: () => Label(), answer: () => z.string() },
  instructions: { input: () => Label(10_000).nullable().default(null), answer: () => z.string().nullable() },
  lease_seconds: { input: () => LeaseSeconds.default(900), answer: () => z.int() },
  dataset_id: {
    input: () =>
      z
        .string()
        .max(100)
        .nullable()
        .describe(
          "Gets a row for each finished item: format preference for a pairwise queue, completion for a single one",
        )
        .default(null),
    answer: () => z.string().nullable(),
  },
  metadata: { input: () => Metadata.default({}), answer: () => z.record(z.string(), z.string()) },
});

export const CreateAnnotationQueue = later(() => {
  const { name, instructions, ...others } = SETTINGS.create();
  return z
    .object({
      name,
      mode: z.enum(MODES).describe("single: label one output. pairwise: choose between two"),
      instructions,
      labels: LabelFields.default([]).describe("Empty: annotators only choose or correct"),
      annotators_per_item: z.int().min(1).max(20).default(1).describe("An item is complete with this many annotations"),
      ...others,
    })
    .meta({ id: "CreateAnnotationQueue" });
});
export type CreateAnnotationQueue = z.infer<typeof CreateAnnotationQueue>;

export const UpdateAnnotationQueue = later(() => z.object(SETTINGS.update()).meta({ id: "UpdateAnnotationQueue" }));
export type UpdateAnnotationQueue = z.infer<typeof UpdateAnnotationQueue>;

const NewItem = later(() =>
  z.object({
    input: Input.optional().describe("A text or a list of messages. Absent for items from traces and experiments"),
    outputs: z
      .array(z.string().max(MAX_OUTPUT))
      .max(2)
      .default([])
      .describe("Two for a pairwise queue, else none or one"),
    trace_ids: z.array(z.string().max(100)).max(2).default([]).describe("Take input and outputs from captured traces"),
    experiment_item_ids: z
      .array(z.string().max(100))
      .max(2)
      .default([])
      .describe("Take input, outputs and reference from items of experiments"),
    reference: z.string().max(MAX_OUTPUT).nullish().describe("Shown to the annotators"),
    metadata: Metadata.default({}),
  }),
);
export type NewItem = z.infer<typeof NewItem>;

export const AddItems = later(() =>
  z
    .object({
      items: z.array(NewItem).min(1).max(MAX_NEW_ITEMS).optional(),
      dataset: z
        .object({
          id: z.string().max(100).describe("ds_x (the rows of now), or a snapshot such as ds_x@snap-3"),
          limit: z.int().min(1).max(MAX_DATASET_ROWS).default(MAX_DATASET_ROWS),
          after_row_id: z.int().min(0).default(0).describe("Skip the rows up to this one"),
          fields: z
            .object({ input: Label(100).optional(), outputs: z.array(Label(100)).max(2).optional() })
            .default({})
            .describe("Columns of the rows. Default: those of the dataset's format"),
        })
        .optional(),
    })
    .refine(({ items, dataset }) => (items === undefined) !== (dataset === undefined), {
      path: ["items"],
      message: "send either items or dataset",
    })
    .meta({ id: "AddAnnotationItems" }),
);
export type AddItems = z.infer<typeof AddItems>;

const Annotator = Label(100).describe("Default: the id of the API key");
export const ReserveItem = later(() =>
  z
    .object({ annotator: Annotator.optional(), lease_seconds: LeaseSeconds.optional() })
    .meta({ id: "ReserveAnnotationItem" }),
);
export const SkipItem = later(() =>
  z
    .object({
      annotator: Annotator.optional(),
      comment: Label(2_000).nullish(),
      for_all: z.boolean().default(false).describe("Take the item out of the queue for all annotators"),
    })
    .meta({ id: "SkipAnnotationItem" }),
);
export const CreateAnnotation = later(() =>
  z
    .object({
      annotator: Annotator.optional(),
      preferred: z.enum(PREFERENCES).nullish().describe("For pairwise queues"),
      labels: z.record(z.string().max(64), LabelValue).default({}).describe("Values by the name of the label"),
      correction: z.string().min(1).max(MAX_OUTPUT).nullish().describe("The answer as it should be; for single queues"),
      comment: Label(2_000).nullish(),
    })
    .meta({ id: "CreateAnnotation" }),
);
export type CreateAnnotation = z.infer<typeof CreateAnnotation>;

export const ItemsQuery = later(() => PageQuery.extend({ status: z.enum(ITEM_STATUSES).optional() }));
export type ItemsQuery = z.infer<typeof ItemsQuery>;

export const Progress = later(() =>
  z.object({
    pending: z.int(),
    appending: z.int(),
    completed: z.int(),
    skipped: z.int(),
  }),
);
export type Progress = z.infer<typeof Progress>;

export const AnnotationQueue = later(() => {
  const { name, instructions, metadata, ...others } = SETTINGS.answer(); // in the order of the document
  return z
    .object({
      object: z.literal("annotation_queue"),
      id: z.string(),
      name,
      mode: z.enum(MODES),
      instructions,
      labels: z.array(LabelField),
      annotators_per_item: z.int(),
      ...others,
      items: Progress.nullable().describe("Items by status. Null in lists"),
      metadata,
      created_at: DateTime,
      updated_at: DateTime,
    })
    .meta({ id: "AnnotationQueue" });
});
export type AnnotationQueue = z.infer<typeof AnnotationQueue>;

const Annotation = later(() =>
  z.object({
    annotator: z.string(),
    key_id: z.string(),
    skipped: z.boolean(),
    preferred: z.enum(PREFERENCES).nullable(),
    labels: z.record(z.string(), LabelValue),
    correction: z.string().nullable(),
    comment: z.string().nullable(),
    created_at: DateTime,
  }),
);

export const AnnotationItem = later(() =>
  z
    .object({
      object: z.literal("annotation_item"),
      id: z.string(),
      queue_id: z.string(),
      status: z
        .enum(ITEM_STATUSES)
        .describe("appending: all annotations are there, the dataset does not have the row yet"),
      source: z.object({
        type: z.enum(SOURCES),
        trace_ids: z.array(z.string()),
        dataset_id: z.string().nullable(),
        row_id: z.int().nullable(),
        experiment_item_ids: z.array(z.string()),
      }),
      input: z.union([z.string(), z.array(z.record(z.string(), z.unknown()))]),
      outputs: z.array(z.string()),
      reference: z.string().nullable(),
      annotations: z.array(Annotation).describe("A reservation shows only those of its annotator"),
      outcome: z
        .object({
          preferred: z.enum(PREFERENCES).nullable(),
          correction: z.string().nullable(),
          votes: z.object({ first: z.int(), second: z.int(), tie: z.int() }).nullable(),
        })
        .nullable(),
      dataset_id: z.string().nullable(),
      dataset_row_id: z.int().nullable().describe("The row that the item appended"),
      error: z.object({ code: z.string(), message: z.string() }).nullable().describe("Why the row was not appended"),
      metadata: z.record(z.string(), z.string()),
      created_at: DateTime,
      updated_at: DateTime,
      completed_at: DateTime.nullable(),
    })
    .meta({ id: "AnnotationItem" }),
);
export type AnnotationItem = z.infer<typeof AnnotationItem>;

/** For the answers of other resources. */
export const AnnotationLink = later(() =>
  z.object({ id: z.string(), queue_id: z.string(), status: z.enum(ITEM_STATUSES) }),
);
export type AnnotationLink = z.infer<typeof AnnotationLink>;

export const AddedItems = later(() =>
  z
    .object({
      object: z.literal("annotation_queue.added_items"),
      queue_id: z.string(),
      added: z.int(),
      item_ids: z.array(z.string()),
    })
    .meta({ id: "AddedAnnotationItems" }),
);

export const Reservation = later(() =>
  z
    .object({
      object: z.literal("annotation_queue.reservation"),
      queue_id: z.string(),
      annotator: z.string(),
      item: AnnotationItem.nullable().describe("Null: there is nothing to do for this annotator"),
      lease_seconds: z.int().nullable(),
    })
    .meta({ id: "AnnotationReservation" }),
);

export const presentQueue = (row: QueueRow, items: Progress | null = null): AnnotationQueue => ({
  object: "annotation_queue",
  id: row.id,
  mode: row.mode,
  labels: row.labels,
  annotators_per_item: row.annotatorsPerItem,
  ...SETTINGS.present(row),
  items,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});

export const presentItem = (row: ItemRow, annotations: readonly AnnotationRow[]): AnnotationItem => ({
  object: "annotation_item",
  id: row.id,
  queue_id: row.queueId,
  status: row.status,
  source: row.source,
  input: row.input,
  outputs: row.outputs,
  reference: row.reference,
  annotations: annotations.map(({ annotator, keyId, skipped, value, comment, createdAt }) => ({
    annotator,
    key_id: keyId,
    skipped,
    ...value,
    comment,
    created_at: isoTime(createdAt),
  })),
  outcome: row.outcome,
  dataset_id: row.datasetId,
  dataset_row_id: row.datasetRowId,
  error: row.error,
  metadata: row.metadata,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
  completed_at: isoOrNull(row.completedAt),
});
