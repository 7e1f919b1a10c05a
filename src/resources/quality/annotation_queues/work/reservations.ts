/** Reservations: an item belongs to one annotator for the time of a lease, so that two people do not do the same work. */
import { and, asc, eq, ne, notExists, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { SECOND_MS } from "../../../../lib/units.ts";
import { type Tx, write } from "../../../../platform/db/db.ts";
import * as queues from "../service.ts";
import { annotationItems, annotationReservations, annotations, type ItemRow, type QueueRow } from "../table.ts";

export type Reserved = { item: ItemRow; leaseSeconds: number };

/**
 * Reserves the next item for the annotator. An annotator that has a reservation in this queue gets the same item again,
 * with a new lease. So a repeated call reserves nothing twice.
 */
export function reserve(
  ctx: Ctx,
  queue: QueueRow,
  { annotator, leaseSeconds = queue.leaseSeconds }: { annotator: string; leaseSeconds?: number | undefined },
): Reserved | undefined {
  return write(ctx.db, (tx) => {
    queues.mustGet({ db: tx }, queue.workspaceId, queue.id); // It may have been deleted while the body was read.
    dropExpired(tx, ctx, queue.id);
    const item = heldBy(tx, queue.id, annotator) ?? nextFor(tx, queue, annotator);
    if (!item) return undefined;
    const leaseMs = leaseSeconds * SECOND_MS;
    const lease = { leaseMs, expiresAt: ctx.clock.now() + leaseMs };
    const row = { itemId: item.id, annotator, queueId: queue.id, ...lease };
    tx.insert(annotationReservations)
      .values(row)
      .onConflictDoUpdate({ target: [annotationReservations.itemId, annotationReservations.annotator], set: lease })
      .run();
    ctx.state.annotationQueues.lease(row, ctx.clock.steady());
    return { item, leaseSeconds };
  });
}

function dropExpired(tx: Tx, ctx: Ctx, queueId: string) {
  const { annotationQueues: live, trustedClock } = ctx.state;
  const time = { now: trustedClock.now(), steady: ctx.clock.steady() };
  const all = tx.select().from(annotationReservations).where(eq(annotationReservations.queueId, queueId)).all();
  for (const row of all) if (live.isExpired(row, time)) release(tx, ctx, row);
}

/** Ends a reservation. Has no effect without one. */
export function release(tx: Tx, ctx: Ctx, { itemId, annotator }: { itemId: string; annotator: string }) {
  const { itemId: item, annotator: name } = annotationReservations;
  tx.delete(annotationReservations)
    .where(and(eq(item, itemId), eq(name, annotator)))
    .run();
  ctx.state.annotationQueues.release({ itemId, annotator });
}

const heldBy = (tx: Tx, queueId: string, annotator: string): ItemRow | undefined =>
  tx
    .select({ item: annotationItems })
    .from(annotationReservations)
    .innerJoin(annotationItems, eq(annotationItems.id, annotationReservations.itemId))
    .where(
      and(
        eq(annotationReservations.queueId, queueId),
        eq(annotationReservations.annotator, annotator),
        eq(annotationItems.status, "pending"),
      ),
    )
    .limit(1)
    .get()?.item;

/** The oldest item that the annotator has neither annotated nor skipped, and that needs more annotators than it has. */
function nextFor(tx: Tx, { id, annotatorsPerItem }: QueueRow, annotator: string): ItemRow | undefined {
  const done = tx
    .select({ one: sql`1` })
    .from(annotations)
    .where(and(eq(annotations.itemId, annotationItems.id), eq(annotations.annotator, annotator)));
  const reserved = tx.$count(
    annotationReservations,
    and(eq(annotationReservations.itemId, annotationItems.id), ne(annotationReservations.annotator, annotator)),
  );
  return tx
    .select()
    .from(annotationItems)
    .where(
      and(
        eq(annotationItems.queueId, id),
        eq(annotationItems.status, "pending"),
        notExists(done),
        sql`${annotationItems.annotationCount} + ${reserved} < ${annotatorsPerItem}`,
      ),
    )
    .orderBy(asc(annotationItems.createdAt), asc(annotationItems.id))
    .limit(1)
    .get();
}
