/**
 * Rows of finished items. The commit that moves the head of the dataset over the row also completes the item. So a
 * crash leaves the item `appending` without a row, or `completed` with one, and the loop takes up the former.
 */
import { eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import type { Once } from "../../../http/idempotency.ts";
import { AppError, type ErrorCode } from "../../../lib/errors.ts";
import { type Db, prepared, type Tx, write } from "../../../platform/db/db.ts";
import { failpoint } from "../../../platform/failpoint.ts";
import { appendRows } from "../../data/datasets/stream/append.ts";
import { machine } from "./machine.ts";
import { rowOf } from "./policy.ts";
import { annotationItems, type ItemRow } from "./table.ts";

/** Another try would fail too: the item is completed without a row. */
const LASTING: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["resource_not_found", "dataset_not_a_stream", "schema"]);
const BATCH = 200;

/** Never rejects: an item that could not be appended stays `appending`, and the loop tries again. */
export function appendRow(ctx: Ctx, itemId: string): Promise<void> {
  const { appends } = ctx.state.annotationQueues;
  const running = appends.get(itemId);
  if (running) return running;
  const append = attempt(ctx, itemId).finally(() => appends.delete(itemId));
  appends.set(itemId, append);
  return append;
}

const current = (db: Db | Tx, id: string): ItemRow | undefined =>
  db.select().from(annotationItems).where(eq(annotationItems.id, id)).get();

async function attempt(ctx: Ctx, id: string) {
  const item = current(ctx.db, id);
  const row = item && rowOf(item);
  if (item?.status !== "appending" || item.datasetId === null || !row) return;
  const once: Once = {
    before: (tx) => (current(tx, id)?.status === "appending" ? undefined : {}),
    keep(tx, answer) {
      const now = ctx.clock.now();
      const { first_row_id: datasetRowId } = answer as { first_row_id: number };
      transition(tx, machine, "appended", { id, now }, { datasetRowId, completedAt: now, error: null });
    },
  };
  try {
    failpoint("annotations.before_append");
    await appendRows(ctx, item, [row], once);
  } catch (error) {
    recordFailure(ctx, item, error);
  }
}

/** The loop tries again every few seconds: only the first of equal failures is logged and stored. */
function recordFailure(ctx: Ctx, { id, datasetId, error: last }: ItemRow, cause: unknown) {
  const lasts = cause instanceof AppError && LASTING.has(cause.code);
  const { code, message } =
    cause instanceof AppError ? cause : { code: "internal", message: "The row could not be written" };
  if (!lasts && last?.code === code) return;
  ctx.log.warn("a finished annotation item was not appended", { item: id, dataset: datasetId, error: cause });
  const now = ctx.clock.now();
  try {
    write(ctx.db, (tx) => {
      const error = { code, message };
      if (lasts) transition(tx, machine, "abandon", { id, now }, { error, completedAt: now });
      else tx.update(annotationItems).set({ error, updatedAt: now }).where(eq(annotationItems.id, id)).run();
    });
  } catch (error) {
    ctx.log.error("the failure of an annotation item was not stored", { item: id, error });
  }
}

const leftItems = prepared((db) =>
  db
    .select({ id: annotationItems.id })
    .from(annotationItems)
    .where(sql`${annotationItems.status} = 'appending'`) // a literal: only then SQLite uses the partial index
    .orderBy(annotationItems.id)
    .prepare(),
);

/** The loop `annotation_queues.append`: items that a crash or a full disk left behind. */
export async function appendLeft(ctx: Ctx, signal?: AbortSignal) {
  const left = leftItems(ctx.db).all();
  for (let from = 0; from < left.length && !signal?.aborted; from += BATCH)
    await Promise.all(left.slice(from, from + BATCH).map(({ id }) => appendRow(ctx, id)));
}
