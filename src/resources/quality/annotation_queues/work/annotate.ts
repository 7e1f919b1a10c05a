/** Annotations and skips, and the completion of an item. */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { transition } from "../../../../events/lifecycle.ts";
import { AppError } from "../../../../lib/errors.ts";
import { type Tx, write } from "../../../../platform/db/db.ts";
import { appendRow } from "../append.ts";
import * as items from "../items.ts";
import type { AnnotationValue } from "../label_schema.ts";
import { machine } from "../machine.ts";
import { outcomeOf, rowOf, valueFault } from "../policy.ts";
import type { CreateAnnotation } from "../schema.ts";
import * as queues from "../service.ts";
import { sumAnnotation } from "../sums.ts";
import { type AnnotationRow, annotationItems, annotations, type ItemRow, type QueueRow } from "../table.ts";
import { release } from "./reservations.ts";

type Author = { annotator: string; keyId: string };

/**
 * Stores the annotation of one annotator. A second one of the same annotator replaces the first while the item is open.
 * An annotation that comes after completion counts for the agreement only. Sending the same one again changes nothing.
 */
export async function annotate(
  ctx: Ctx,
  queue: QueueRow,
  itemId: string,
  { annotator, keyId, ...body }: Author & Omit<CreateAnnotation, "annotator">,
): Promise<ItemRow> {
  const value: AnnotationValue = {
    labels: body.labels,
    preferred: body.preferred ?? null,
    correction: body.correction ?? null,
  };
  const annotation = { annotator, keyId, value, comment: body.comment ?? null };
  const item = write(ctx.db, (tx) => record(tx, ctx, queue, itemId, annotation));
  if (item.status !== "appending") return item;
  await appendRow(ctx, item.id);
  return items.find(ctx.db, queue.id, item.id) ?? item;
}

type NewAnnotation = Author & Pick<AnnotationRow, "value" | "comment">;

function record(tx: Tx, ctx: Ctx, requested: QueueRow, itemId: string, annotation: NewAnnotation): ItemRow {
  const queue = queues.mustGet({ db: tx }, requested.workspaceId, requested.id);
  const item = items.mustGet({ db: tx }, queue, itemId);
  const fault = valueFault(queue, item, annotation.value);
  if (fault)
    throw new AppError("schema", `${fault.path.join(".")}: ${fault.message}`, {
      param: `/${fault.path.map((part) => part.replaceAll("~", "~0").replaceAll("/", "~1")).join("/")}`,
    });
  const before = items.annotationsOf(tx, itemId);
  const previous = before.find(({ annotator }) => annotator === annotation.annotator);
  const isOpen = item.status === "pending" || item.status === "skipped";
  if (!isOpen && previous && !previous.skipped) {
    if (Bun.deepEquals(previous.value, annotation.value) && previous.comment === annotation.comment) return item;
    throw new AppError("unsupported_state", `Item ${itemId} is complete: its annotations do not change any more`, {
      param: "item",
    });
  }
  const now = ctx.clock.now();
  put(tx, { queue, item, before }, { ...annotation, skipped: false, createdAt: now });
  release(tx, ctx, { itemId, annotator: annotation.annotator });
  const all = items.annotationsOf(tx, itemId).filter(({ skipped }) => !skipped);
  const patch = { annotationCount: all.length, updatedAt: now };
  if (isOpen && all.length >= queue.annotatorsPerItem) return complete(tx, queue, { ...item, ...patch }, all);
  return tx.update(annotationItems).set(patch).where(eq(annotationItems.id, itemId)).returning().get() ?? item;
}

/** Late annotations need no place among `annotators_per_item`, so they have a limit of their own. */
const MAX_ANNOTATORS = 100;

/** `before`: the annotations of the item. */
type Annotated = { queue: QueueRow; item: ItemRow; before: readonly AnnotationRow[] };

function put(tx: Tx, { queue, item, before }: Annotated, row: Omit<AnnotationRow, "itemId" | "queueId">) {
  const { id: itemId, queueId } = item;
  if (before.length >= MAX_ANNOTATORS && !before.some(({ annotator }) => annotator === row.annotator))
    throw new AppError("quota_exceeded", `Item ${itemId} has ${MAX_ANNOTATORS} annotations, the most for an item`);
  sumAnnotation(tx, queue, itemId, before, row);
  tx.insert(annotations)
    .values({ itemId, queueId, ...row })
    .onConflictDoUpdate({ target: [annotations.itemId, annotations.annotator], set: row })
    .run();
}

/** The item waits as `appending` if it makes a row. The commit that appends the row completes it. */
function complete(tx: Tx, queue: QueueRow, item: ItemRow, all: readonly AnnotationRow[]): ItemRow {
  const outcome = outcomeOf(queue.mode, all);
  const appends = queue.datasetId !== null && rowOf({ ...item, outcome }) !== undefined;
  const { annotationCount, updatedAt: now } = item;
  const patch = appends
    ? { annotationCount, outcome, datasetId: queue.datasetId }
    : { annotationCount, outcome, completedAt: now };
  return transition(tx, machine, appends ? "append" : "complete", { id: item.id, now }, patch) ?? item;
}

/** The annotator does not get the item again. `forAll` takes the item out of the queue. */
export function skip(
  ctx: Ctx,
  queue: QueueRow,
  itemId: string,
  { annotator, keyId, comment, forAll }: Author & { comment: string | null; forAll: boolean },
): ItemRow {
  return write(ctx.db, (tx) => {
    const current = queues.mustGet({ db: tx }, queue.workspaceId, queue.id); // It may have been deleted meanwhile.
    const item = items.mustGet({ db: tx }, current, itemId);
    const before = items.annotationsOf(tx, itemId);
    const previous = before.find((each) => each.annotator === annotator);
    const again = previous?.skipped && (item.status === "skipped" || !forAll);
    if (again) return item;
    if (item.status !== "pending" || (previous && !previous.skipped))
      throw new AppError(
        "unsupported_state",
        previous && !previous.skipped
          ? `Item ${itemId} has an annotation of ${annotator} and cannot be skipped`
          : `Item ${itemId} is ${item.status} and cannot be skipped`,
        { param: "item" },
      );
    const now = ctx.clock.now();
    const value: AnnotationValue = { labels: {}, preferred: null, correction: null };
    const row = { annotator, keyId, skipped: true, value, comment, createdAt: now };
    put(tx, { queue: current, item, before }, row);
    release(tx, ctx, { itemId, annotator });
    return forAll ? (transition(tx, machine, "skip", { id: itemId, now }) ?? item) : item;
  });
}
