import { newId } from "../lib/ids.ts";
import { afterCommit, type Db, type Tx } from "../platform/db/db.ts";
import { preparedInsert } from "../platform/db/row.ts";
import { CATALOG, type EventPayload, type EventType } from "./catalog.ts";
import { events } from "./table.ts";

const insert = preparedInsert(events, "seq");

/**
 * Takes a `Tx`, never a `Db`: an event exists if and only if the change it reports does. `at.id`: for a caller that
 * shows the event in a list of its own too, under the same id.
 */
export function emit<T extends EventType>(
  tx: Tx,
  type: T,
  at: { workspaceId: string; now: number; id?: string | undefined },
  data: EventPayload<T>,
) {
  const clean = CATALOG[type].data.parse(data);
  const { id = newId("evt", at.now) } = at;
  insert(tx, { id, workspaceId: at.workspaceId, type, subjectId: clean.id, data: clean, createdAt: at.now });
  afterCommit(tx, () => {
    for (const listener of tx.$listeners) listener();
  });
  return id;
}

/** Calls `fn` after every commit of this process that recorded an event. Returns the function that stops it. */
export function onEvents(db: Db, fn: () => void): () => void {
  db.$listeners.add(fn);
  return () => void db.$listeners.delete(fn);
}
