/**
 * The only way into the ledger. An entry, the sum that it changes and the events that it causes are one commit. An
 * entry whose window is booked already throws and rolls back the commit, in which the caller also moves its own row.
 */
import { and, type Column, eq, isNull, or, sql } from "drizzle-orm";
import { emit } from "../../../events/emit.ts";
import { newId } from "../../../lib/ids.ts";
import { usdOf } from "../../../lib/money.ts";
import { prepared, type Tx } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { workspaces } from "../../access/workspaces/table.ts";
import { type AccountRow, creditAccounts, type EntryRow, ledgerEntries } from "./table.ts";

const insert = preparedInsert(ledgerEntries);
const keepSum = prepared((db) => {
  const [balance, full, now] = [sql.placeholder("balance"), sql.placeholder("full"), sql.placeholder("now")];
  const { workspaceId, balanceMicros, fullMicros, updatedAt } = creditAccounts;
  const set = {
    balanceMicros: proposed(balanceMicros),
    fullMicros: proposed(fullMicros),
    updatedAt: proposed(updatedAt),
  };
  return db
    .insert(creditAccounts)
    .values({ workspaceId: sql.placeholder("workspaceId"), balanceMicros: balance, fullMicros: full, updatedAt: now })
    .onConflictDoUpdate({ target: workspaceId, set })
    .prepare();
});
/** The value that the rejected insert had for this column. */
const proposed = ({ name }: Column) => sql.raw(`excluded."${name}"`);
export const accountOf = preparedRow(creditAccounts, eq(creditAccounts.workspaceId, sql.placeholder("workspaceId")));

export type Entry = Pick<EntryRow, "workspaceId" | "kind" | "amountMicros" | "description"> & {
  /** Left out: the id of the entry. */
  windowKey?: string;
  /** The key that caused it. */
  apiKeyId?: string | null;
  usage?: Pick<EntryRow, "subjectKind" | "subjectId" | "usageMs" | "rateMicros">;
};
const NO_USAGE = { subjectKind: null, subjectId: null, usageMs: null, rateMicros: null };

export const append = (tx: Tx, entry: Entry, now: number): EntryRow =>
  book(tx, entry, now, accountOf(tx, { workspaceId: entry.workspaceId }));

function book(tx: Tx, input: Entry, now: number, account: AccountRow | undefined): EntryRow {
  const { usage = NO_USAGE, windowKey, apiKeyId = null, ...entry } = input;
  const { workspaceId, kind, amountMicros } = entry;
  const id = newId("txn", now);
  const row = insert(tx, {
    ...entry,
    ...usage,
    apiKeyId,
    id,
    windowKey: windowKey ?? id,
    createdAt: now,
    mergedEntries: null,
  });
  const before = account?.balanceMicros ?? 0;
  const after = before + amountMicros;
  const full = kind === "charge" ? (account?.fullMicros ?? null) : Math.max(0, after);
  keepSum(tx).run({ workspaceId, balance: after, full, now });
  emitAlerts(tx, row, { full: full ?? 0, before, after });
  return row;
}

type Change = { full: number; before: number; after: number };

function emitAlerts(tx: Tx, entry: EntryRow, { full, before, after }: Change) {
  const { workspaceId, kind, amountMicros, createdAt: now } = entry;
  const alerts = alertsOf(full, before, after);
  if (kind !== "grant" && alerts.length === 0) return;
  const balance = { object: "balance" as const, id: customerOf(tx, workspaceId), balance_usd: usdOf(after) };
  const at = { workspaceId, now };
  if (kind === "grant") emit(tx, "credit.granted", at, { ...balance, amount_usd: usdOf(amountMicros) });
  for (const alert of alerts)
    if (alert.type === "credit.low") emit(tx, alert.type, at, { ...balance, threshold_percent: alert.percent });
    else emit(tx, alert.type, at, balance);
}

const customerOf = (tx: Tx, workspaceId: string): string =>
  tx.select({ id: workspaces.paymentCustomerId }).from(workspaces).where(eq(workspaces.id, workspaceId)).get()?.id ??
  workspaceId;

/** Books the credit that a workspace begins with. A second call changes nothing. */
export function openAccount(tx: Tx, workspaceId: string, micros: number, now: number) {
  const account = accountOf(tx, { workspaceId });
  if (account?.fullMicros != null) return;
  const entry = { workspaceId, kind: "initial", amountMicros: micros, description: "Initial credit" } as const;
  book(tx, { ...entry, windowKey: `${workspaceId}/initial` }, now, account);
}

/** Workspaces without their initial credit: they are older than the ledger. */
export function unopened(tx: Tx): string[] {
  return tx
    .select({ id: workspaces.id })
    .from(workspaces)
    .leftJoin(creditAccounts, eq(creditAccounts.workspaceId, workspaces.id))
    .where(
      and(
        sql`${workspaces.status} <> 'deleted'`, // as the index workspaces_living has it
        or(isNull(creditAccounts.workspaceId), isNull(creditAccounts.fullMicros)),
      ),
    )
    .all()
    .map(({ id }) => id);
}

/** Percent of the balance after the last grant. Each time the balance falls below one, the workspace gets an event. */
const LOW = [20, 5];

type Alert = { type: "credit.low"; percent: number } | { type: "credit.exhausted" };

/** The events that a change from `before` to `after` causes. `full`: the balance after the last grant. */
export function alertsOf(full: number, before: number, after: number): Alert[] {
  const low = LOW.filter((percent) => {
    const line = (full * percent) / 100;
    return after > 0 && before > line && after <= line;
  });
  const last = low.at(-1); // below both, only the lower one counts
  return [
    ...(last === undefined ? [] : [{ type: "credit.low", percent: last } as const]),
    ...(before > 0 && after <= 0 ? [{ type: "credit.exhausted" } as const] : []),
  ];
}
