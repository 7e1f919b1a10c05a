/** Items of a queue: adding, listing and reading them. */
import { and, asc, eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { page } from "../../../http/answer/pagination.ts";
import type { Once } from "../../../http/idempotency.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { type Db, prepared, type Tx, write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { datasetItems } from "./dataset_items.ts";
import { type AddItems, type AnnotationItem, type ItemsQuery, presentItem } from "./schema.ts";
import * as queues from "./service.ts";
import { givenItems, type ItemContent } from "./sources.ts";
import {
  type AnnotationRow,
  annotationItemSources,
  annotationItems,
  annotations,
  type ItemRow,
  type QueueRow,
} from "./table.ts";

const MAX_ITEMS = 100_000;

const insert = preparedInsert(annotationItems);
const byId = preparedRow(
  annotationItems,
  and(eq(annotationItems.id, sql.placeholder("id")), eq(annotationItems.queueId, sql.placeholder("queueId"))),
);

export const find = (db: Db | Tx, queueId: string, id: string): ItemRow | undefined => byId(db, { id, queueId });

export function mustGet({ db }: Pick<Ctx, "db">, queue: QueueRow, id: string): ItemRow {
  const row = find(db, queue.id, id);
  if (!row)
    throw new AppError("resource_not_found", `Queue ${queue.id} has no item ${id.slice(0, 80)}`, { param: "item" });
  return row;
}

const byItem = prepared((db) =>
  db
    .select()
    .from(annotations)
    .where(eq(annotations.itemId, sql.placeholder("itemId")))
    .orderBy(asc(annotations.createdAt), asc(annotations.annotator))
    .prepare(),
);

/** In order of time. */
export const annotationsOf = (db: Db | Tx, itemId: string): AnnotationRow[] => byItem(db).all({ itemId });

export const present = ({ db }: Pick<Ctx, "db">, row: ItemRow): AnnotationItem =>
  presentItem(row, annotationsOf(db, row.id));

export function list(ctx: Ctx, queue: QueueRow, { status, ...query }: ItemsQuery) {
  const within = and(
    eq(annotationItems.queueId, queue.id),
    status === undefined ? undefined : eq(annotationItems.status, status),
  );
  return page(ctx.db, annotationItems, within, query, (row) => present(ctx, row));
}

type Added = { object: "annotation_queue.added_items"; queue_id: string; added: number; item_ids: string[] };

/** All items of a request are added in one commit, or none. */
export async function add(ctx: Ctx, queue: QueueRow, body: AddItems, once: Once | undefined): Promise<Added> {
  const before = once && write(ctx.db, (tx) => once.before(tx));
  if (before) return before as Added;
  const contents = body.dataset
    ? await datasetItems(ctx, queue, body.dataset)
    : givenItems(ctx, queue, body.items ?? []);
  return write(ctx.db, (tx) => {
    queues.mustGet({ db: tx }, queue.workspaceId, queue.id); // It may have been deleted while the rows were read.
    const held = Object.values(queues.progressOf({ db: tx }, queue.id)).reduce((total, n) => total + n, 0);
    if (held + contents.length > MAX_ITEMS)
      throw new AppError("quota_exceeded", `A queue holds at most ${MAX_ITEMS} items: this one has ${held}`);
    const now = ctx.clock.now();
    const ids = contents.map((content) => {
      const { id, source } = insert(tx, newItem(queue, content, now));
      const sources = new Set([...source.trace_ids, ...source.experiment_item_ids]);
      for (const sourceId of sources) tx.insert(annotationItemSources).values({ sourceId, itemId: id }).run();
      return id;
    });
    const added: Added = {
      object: "annotation_queue.added_items",
      queue_id: queue.id,
      added: ids.length,
      item_ids: ids,
    };
    once?.keep(tx, added);
    return added;
  });
}

const newItem = ({ id: queueId, workspaceId }: QueueRow, content: ItemContent, now: number): ItemRow => ({
  ...content,
  id: newId("anqi", now),
  workspaceId,
  queueId,
  status: "pending",
  annotationCount: 0,
  outcome: null,
  datasetId: null,
  datasetRowId: null,
  error: null,
  createdAt: now,
  updatedAt: now,
  completedAt: null,
});
