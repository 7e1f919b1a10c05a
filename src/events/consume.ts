import { asc, eq, gt, lt, lte, max, min } from "drizzle-orm";
import { type Db, durable, type Tx, write } from "../platform/db.ts";
import { gradually } from "../platform/gradually.ts";
import { type EventRow, eventCursors, events } from "./table.ts";

/**
 * Reads the outbox from a stored cursor. `apply` and the cursor move in one commit, so each event is applied
 * exactly once to the database; whatever the consumer does to the outside world it does later, from the rows
 * that `apply` left. Returns how many events were taken: as many as `apply` says, or else the whole batch.
 */
export async function consume(
  db: Db,
  consumer: string,
  now: number,
  apply: (tx: Tx, batch: readonly EventRow[]) => number | undefined,
  limit = 100,
): Promise<number> {
  await durable(db); // the outside world must not hear of a change that a power cut could take back
  const from = db.select().from(eventCursors).where(eq(eventCursors.consumer, consumer)).get()?.seq ?? 0;
  const batch = db.select().from(events).where(gt(events.seq, from)).orderBy(asc(events.seq)).limit(limit).all();
  if (batch.length === 0) return 0;
  return write(db, (tx) => {
    const taken = apply(tx, batch) ?? batch.length;
    const cursor = { seq: batch[taken - 1]?.seq ?? from, updatedAt: now };
    tx.insert(eventCursors)
      .values({ consumer, ...cursor })
      .onConflictDoUpdate({ target: eventCursors.consumer, set: cursor })
      .run();
    return taken;
  });
}

/** Of the newest event there is. */
export const lastSeq = (db: Db): number =>
  db
    .select({ seq: max(events.seq) })
    .from(events)
    .get()?.seq ?? 0;

/** Forgets events older than `before` that every consumer has passed. */
export function prune(db: Db, before: number): Promise<number> {
  return gradually(db, (tx, rows) => {
    const slowest = tx
      .select({ seq: min(eventCursors.seq) })
      .from(eventCursors)
      .get()?.seq;
    const passed = slowest === null || slowest === undefined ? undefined : lt(events.seq, slowest + 1);
    const { seq, createdAt } = events;
    const oldest = tx.select({ seq, createdAt }).from(events).where(passed).orderBy(asc(seq)).limit(rows).all();
    const young = oldest.findIndex((event) => event.createdAt >= before); // they were recorded in order of time
    const last = oldest.slice(0, young < 0 ? undefined : young).at(-1);
    if (!last) return 0;
    return tx.delete(events).where(lte(seq, last.seq)).returning({ seq }).all().length;
  });
}
