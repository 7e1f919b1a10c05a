/** Annotation queues: people label outputs or choose between two. Finished items become rows of a dataset. */
import { and, desc, eq, inArray, ne, notExists, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { afterCommit, prepared, type Tx, write } from "../../../platform/db/db.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import * as datasets from "../../data/datasets/service.ts";
import {
  type AnnotationLink,
  type CreateAnnotationQueue,
  type Progress,
  presentQueue,
  SETTINGS,
  type UpdateAnnotationQueue,
} from "./schema.ts";
import { ALL_ITEMS } from "./sums.ts";
import {
  annotationItemSources,
  annotationItems,
  annotationQueues,
  annotationReservations,
  annotationSums,
  type QueueRow,
} from "./table.ts";

const byId = preparedRow(
  annotationQueues,
  and(eq(annotationQueues.id, sql.placeholder("id")), eq(annotationQueues.workspaceId, sql.placeholder("workspaceId"))),
);
const insert = preparedInsert(annotationQueues);

export const list = (ctx: Ctx, workspaceId: string, query: PageQuery) =>
  page(ctx.db, annotationQueues, eq(annotationQueues.workspaceId, workspaceId), query, (row) => presentQueue(row));

export function mustGet({ db }: Pick<Ctx, "db">, workspaceId: string, id: string): QueueRow {
  const row = byId(db, { id, workspaceId });
  if (!row) throw new AppError("resource_not_found", `No annotation queue ${id.slice(0, 80)}`, { param: "id" });
  return row;
}

const statusSums = prepared((db) =>
  db
    .select({ status: annotationSums.a, n: annotationSums.n })
    .from(annotationSums)
    .where(
      and(
        eq(annotationSums.queueId, sql.placeholder("queueId")),
        eq(annotationSums.label, ""),
        eq(annotationSums.kind, "status"),
      ),
    )
    .prepare(),
);

export function progressOf({ db }: Pick<Ctx, "db">, queueId: string): Progress {
  const sums = statusSums(db).all({ queueId });
  const of = (status: string) => sums.find((each) => each.status === status)?.n ?? 0;
  return {
    pending: of("pending"),
    appending: of("appending"),
    completed: of("completed"),
    skipped: of("skipped"),
  };
}

const MAX_LINKS = 100;
const bySource = prepared((db) =>
  db
    .select({ id: annotationItems.id, queue_id: annotationItems.queueId, status: annotationItems.status })
    .from(annotationItemSources)
    .innerJoin(annotationItems, eq(annotationItems.id, annotationItemSources.itemId))
    .innerJoin(annotationQueues, eq(annotationQueues.id, annotationItems.queueId))
    .where(
      and(
        eq(annotationItemSources.sourceId, sql.placeholder("sourceId")),
        eq(annotationQueues.workspaceId, sql.placeholder("workspaceId")),
      ),
    )
    .orderBy(desc(annotationItemSources.itemId))
    .limit(MAX_LINKS)
    .prepare(),
);

/** The newest annotation items with the content of a trace or of an experiment item. */
export const itemsFrom = ({ db }: Pick<Ctx, "db">, workspaceId: string, sourceId: string): AnnotationLink[] =>
  bySource(db).all({ workspaceId, sourceId });

/** The format of the rows that a queue appends. */
const FORMAT = { single: "completion", pairwise: "preference" } as const;

function mustTakeRows(ctx: Ctx, workspaceId: string, mode: QueueRow["mode"], datasetId: string | null) {
  if (datasetId === null) return;
  const { format, source } = datasets.mustGet(ctx, workspaceId, datasetId, "/dataset_id");
  if (source)
    throw new AppError("dataset_not_a_stream", `dataset_id: ${datasetId} is a connected source and takes no rows`, {
      param: "/dataset_id",
    });
  if (format !== null && format !== FORMAT[mode])
    throw new AppError(
      "schema",
      `dataset_id: a ${mode} queue needs a dataset of the format ${FORMAT[mode]}, but ${datasetId} has ${format}`,
      { param: "/dataset_id" },
    );
}

export function create(ctx: Ctx, workspaceId: string, body: CreateAnnotationQueue): QueueRow {
  mustTakeRows(ctx, workspaceId, body.mode, body.dataset_id);
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const row = insert(tx, {
      id: newId("anq", now),
      workspaceId,
      mode: body.mode,
      labels: body.labels,
      annotatorsPerItem: body.annotators_per_item,
      ...SETTINGS.columns(body),
      createdAt: now,
      updatedAt: now,
      summedUntil: ALL_ITEMS,
    });
    emit(tx, "annotation_queue.created", { workspaceId, now }, presentQueue(row));
    return row;
  });
}

export function update(ctx: Ctx, workspaceId: string, id: string, body: UpdateAnnotationQueue): QueueRow {
  const before = mustGet(ctx, workspaceId, id);
  if (body.dataset_id !== undefined) mustTakeRows(ctx, workspaceId, before.mode, body.dataset_id);
  const now = ctx.clock.now();
  const patch = { ...SETTINGS.changes(body), updatedAt: now };
  return write(ctx.db, (tx) => {
    const [row = before] = tx.update(annotationQueues).set(patch).where(eq(annotationQueues.id, id)).returning().all();
    emit(tx, "annotation_queue.updated", { workspaceId, now }, presentQueue(row));
    return row;
  });
}

/** The items and their annotations go later, in small commits. Rows that they appended stay in their dataset. */
export function remove(ctx: Ctx, workspaceId: string, id: string): QueueRow {
  const row = mustGet(ctx, workspaceId, id);
  write(ctx.db, (tx) => erase(tx, ctx, row));
  return row;
}

function erase(tx: Tx, ctx: Ctx, row: QueueRow) {
  const ofQueue = eq(annotationReservations.queueId, row.id);
  const reserved = tx.delete(annotationReservations).where(ofQueue).returning().all();
  for (const each of reserved) ctx.state.annotationQueues.release(each);
  tx.delete(annotationQueues).where(eq(annotationQueues.id, row.id)).run();
  const at = { workspaceId: row.workspaceId, now: ctx.clock.now() };
  emit(tx, "annotation_queue.deleted", at, presentQueue(row));
  afterCommit(tx, () => ctx.wake("annotation_queues.prune"));
}

/** For a deleted workspace. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  write(ctx.db, (tx) => {
    const all = tx.select().from(annotationQueues).where(eq(annotationQueues.workspaceId, workspaceId)).all();
    for (const row of all) erase(tx, ctx, row);
  });
}

/**
 * The loop `annotation_queues.prune`: items of deleted queues. An item whose row is not in its dataset yet stays until
 * it is, so that no finished annotation is lost.
 */
export async function prune(ctx: Ctx) {
  const { id, queueId, status } = annotationItems;
  const queue = ctx.db.select({ one: sql`1` }).from(annotationQueues).where(eq(annotationQueues.id, queueId));
  const left = ctx.db.selectDistinct({ id: queueId }).from(annotationItems).where(notExists(queue)).all();
  for (const deleted of left) {
    await gradually(ctx.db, (tx, rows) => eraseSums(tx, deleted.id, rows)); // first: the items name the queue
    await gradually(ctx.db, (tx, rows) => {
      const some = tx
        .select({ id })
        .from(annotationItems)
        .where(and(eq(queueId, deleted.id), ne(status, "appending")))
        .limit(rows);
      return tx.delete(annotationItems).where(inArray(id, some)).returning({ id }).all().length;
    });
  }
}

function eraseSums(tx: Tx, deletedId: string, rows: number): number {
  const { queueId, label, kind, a, b } = annotationSums;
  const some = tx.select({ label, kind, a, b }).from(annotationSums).where(eq(queueId, deletedId)).limit(rows);
  const isOne = sql`(${label}, ${kind}, ${a}, ${b}) IN ${some}`;
  return tx
    .delete(annotationSums)
    .where(and(eq(queueId, deletedId), isOne))
    .returning({ a })
    .all().length;
}
