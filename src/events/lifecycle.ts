import { and, eq, getTableName, inArray } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { afterCommit, type Tx } from "../platform/db/db.ts";
import { changeRow, isPlain } from "../platform/db/row.ts";
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
  /** True for a row of the server's own work: its changes emit no event. */
  readonly isSilent?: (row: T["$inferSelect"]) => boolean;
};

/** A state machine is a table: action → from, to, event. Statuses and event names are checked by the compiler. */
export const lifecycle = <T extends Stateful, A extends string>(machine: Machine<T, A>): Machine<T, A> => machine;

const changes = counter("verk_status_changes_total", "What has become of things, by the action of their machine", [
  "resource",
  "action",
]);

/** `eventId`: the id that the event of the step gets. */
type Subject = { id: string; now: number; eventId?: string };
/** For busy paths. A step without an event neither reads the row nor counts; the answer is whether it was taken. */
type UnreadSubject = { id: string; now: number; isUnread: true };

/**
 * The only way to change a status. Compare-and-set: it returns undefined when the row is not in a `from` state, so a
 * late or repeated message is a no-op and not a second event.
 */
export function transition<T extends Stateful, A extends string>(
  tx: Tx,
  machine: Machine<T, A>,
  action: A,
  subject: UnreadSubject,
  patch?: Partial<T["$inferInsert"]>,
): boolean;
export function transition<T extends Stateful, A extends string>(
  tx: Tx,
  machine: Machine<T, A>,
  action: A,
  subject: Subject,
  patch?: Partial<T["$inferInsert"]>,
): T["$inferSelect"] | undefined;
export function transition<T extends Stateful, A extends string>(
  tx: Tx,
  machine: Machine<T, A>,
  action: A,
  { id, now, eventId, isUnread }: Subject & { isUnread?: true },
  patch: Partial<T["$inferInsert"]> = {},
) {
  const [from, to, event] = machine.steps[action];
  const { table } = machine;
  const set = { ...patch, status: to, updatedAt: now };
  const change = { id, from: from as readonly string[], set };
  if (isUnread && event === null && isPlain(set)) return changeRow(tx, table, change, "unread");
  const row = isPlain(set)
    ? changeRow(tx, table, change)
    : tx
        .update(table)
        .set(set as never) // the generic table hides its own columns
        .where(and(eq(table.id, id), inArray(table.status, [...from])))
        .returning()
        .get();
  if (!row) return isUnread ? false : undefined;
  const workspaceId = machine.workspaceOf(row);
  afterCommit(tx, () => changes.add(tx, workspaceId, [getTableName(table), action]));
  if (event && !machine.isSilent?.(row)) emit(tx, event, { workspaceId, now, id: eventId }, machine.report(row));
  return isUnread ? true : row;
}
