import { and, eq, getTableName, inArray } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { afterCommit, type Tx } from "../platform/db/db.ts";
import { changeRow, isPlain, setRow } from "../platform/db/row.ts";
import { counter } from "../platform/metrics.ts";
import type { EventPayload, EventType } from "./catalog.ts";
import { emit } from "./emit.ts";

type Stateful = SQLiteTable & { id: SQLiteColumn; status: SQLiteColumn; updatedAt: SQLiteColumn };
type Status<T extends Stateful> = T["$inferSelect"] extends { status: infer S } ? S : never;
type Step<S> = readonly [from: readonly S[], to: S, event: EventType | null];

export type Machine<T extends Stateful, A extends string> = {
  readonly table: T;
  readonly initial: Status<T>;
  readonly terminal: readonly Status<T>[];
  readonly steps: Record<A, Step<Status<T>>>;
  readonly report: (row: T["$inferSelect"]) => EventPayload<EventType>;
  readonly workspaceOf: (row: T["$inferSelect"]) => string;
};

/** A state machine is a table: action → from, to, event. Statuses and event names are checked by the compiler. */
export const lifecycle = <T extends Stateful, A extends string>(machine: Machine<T, A>): Machine<T, A> => machine;

const changes = counter("verk_status_changes_total", "What has become of things, by the action of their machine", [
  "resource",
  "action",
]);

/** `eventId`: the id that the event of the step gets. */
type Subject = { id: string; now: number; eventId?: string };

/**
 * The only way to change a status. Compare-and-set: it returns undefined when the row is not in a `from` state, so a
 * late or repeated message is a no-op and not a second event.
 */
export function transition<T extends Stateful, A extends string>(
  tx: Tx,
  machine: Machine<T, A>,
  action: A,
  subject: Subject,
  patch: Partial<T["$inferInsert"]> = {},
): T["$inferSelect"] | undefined {
  const [from, to, event] = machine.steps[action];
  const { table } = machine;
  const set = { ...patch, status: to, updatedAt: subject.now };
  const row = isPlain(set)
    ? changeRow(tx, table, { id: subject.id, from: from as readonly string[], set })
    : tx
        .update(table)
        .set(set as never) // the generic table hides its own columns
        .where(and(eq(table.id, subject.id), inArray(table.status, [...from])))
        .returning()
        .get();
  if (!row) return undefined;
  const workspaceId = machine.workspaceOf(row);
  afterCommit(tx, () => changes.add(tx, workspaceId, [getTableName(table), action]));
  if (event) emit(tx, event, { workspaceId, now: subject.now, id: subject.eventId }, machine.report(row));
  return row;
}

/**
 * Like `transition`, for a caller that does not need the row: true if the step was taken. Without an event the row is
 * not read.
 */
export function advance<T extends Stateful, A extends string>(
  tx: Tx,
  machine: Machine<T, A>,
  action: A,
  subject: { id: string; now: number },
  patch: Partial<T["$inferInsert"]> = {},
): boolean {
  const [from, to, event] = machine.steps[action];
  const set = { ...patch, status: to, updatedAt: subject.now };
  if (event !== null || !isPlain(set)) return transition(tx, machine, action, subject, patch) !== undefined;
  return setRow(tx, machine.table, { id: subject.id, from: from as readonly string[], set });
}
