import { and, asc, eq, gt, lt, lte, max, min, type SQL, sql } from "drizzle-orm";
import { type Db, durable, prepared, type Tx, write } from "../platform/db/db.ts";
import { gradually } from "../platform/db/gradually.ts";
import { type EventRow, eventCursors, events } from "./table.ts";

type Apply = (tx: Tx, batch: readonly EventRow[]) => number | undefined;
type Prepare = (batch: readonly EventRow[]) => Promise<void>;

/**
 * Reads the outbox from a stored cursor. `apply` and the cursor move in one commit, so each event is applied
 * exactly once to the database; whatever the consumer does to the outside world it does later, from the rows
 * that `apply` left. Returns how many events were taken: as many as `apply` says, or else the whole batch.
 * Events that are not `wanted` are passed by inside the database, and never put together. `prepare` runs before the
 * commit, for work that is too long for one: after a kill it runs again.
 */
export function consumer(name: string, { limit = 100, wanted }: { limit?: number; wanted?: SQL } = {}) {
  const cursorOf = prepared((db) =>
    db.select({ seq: eventCursors.seq }).from(eventCursors).where(eq(eventCursors.consumer, name)).prepare(),
  );
  const batchOf = prepared((db) => {
    const fresh = and(gt(events.seq, sql.placeholder("from")), lte(events.seq, sql.placeholder("upTo")), wanted);
    return db.select().from(events).where(fresh).orderBy(asc(events.seq)).limit(limit).prepare();
  });
  return async (db: Db, now: number, apply: Apply, prepare?: Prepare): Promise<number> => {
    await durable(db); // the outside world must not hear of a change that a power cut could take back
    const from = cursorOf(db).get()?.seq ?? 0;
    const upTo = lastSeq(db);
    if (upTo <= from) return 0;
    const batch = batchOf(db).all({ from, upTo });
    await prepare?.(batch);
    return write(db, (tx) => {
      const taken = batch.length === 0 ? 0 : (apply(tx, batch) ?? batch.length);
      const isAll = taken === batch.length && batch.length < limit;
      const cursor = { seq: isAll ? upTo : (batch[taken - 1]?.seq ?? from), updatedAt: now };
      tx.insert(eventCursors)
        .values({ consumer: name, ...cursor })
        .onConflictDoUpdate({ target: eventCursors.consumer, set: cursor })
        .run();
      return taken;
    });
  };
}

const newest = prepared((db) =>
  db
    .select({ seq: max(events.seq) })
    .from(events)
    .prepare(),
);

/** The sequence number of the newest event; 0 if there is none. */
export const lastSeq = (db: Db): number => newest(db).get()?.seq ?? 0;

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
