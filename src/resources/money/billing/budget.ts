/**
 * The budgets of API keys, for one month of UTC. A charge counts for the key that caused it and for each key whose
 * budget that key shares, in the commit that books the charge.
 */
import { and, eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { type Db, prepared, type Tx } from "../../../platform/db/db.ts";
import { preparedRow } from "../../../platform/db/row.ts";
import { type ApiKeyRow, apiKeys } from "../../access/api_keys/table.ts";
import { byMonth, monthOf } from "./months.ts";
import { apiKeySpending } from "./table.ts";
import { type Meter, metersOf } from "./usage.ts";

/** `keyId`: the key that caused the cost. Null: no key did, or the row is older than the column. */
export type Payer = { workspaceId: string; keyId: string | null };

/** Keys that share a budget may have keys below them, down to this many levels; `api_keys` rejects more. */
export const MOST_LEVELS = 16;

const keyById = preparedRow(apiKeys, eq(apiKeys.id, sql.placeholder("id")));
const spendingOf = preparedRow(
  apiKeySpending,
  and(eq(apiKeySpending.keyId, sql.placeholder("keyId")), eq(apiKeySpending.month, sql.placeholder("month"))),
);
const add = prepared((db) => {
  const { keyId, month, spentMicros } = apiKeySpending;
  const [amount, now] = [sql.placeholder("amount"), sql.placeholder("now")];
  const key = { keyId: sql.placeholder("keyId"), month: sql.placeholder("month") };
  return db
    .insert(apiKeySpending)
    .values({ ...key, workspaceId: sql.placeholder("workspaceId"), spentMicros: amount, updatedAt: now })
    .onConflictDoUpdate({
      target: [keyId, month],
      set: { spentMicros: sql`${spentMicros} + ${amount}`, updatedAt: sql`${now}` },
    })
    .prepare();
});

/** The key, then the keys whose budgets it shares. Revoked keys count too: what they started goes on. */
export function chainOf(db: Db, keyId: string | null): ApiKeyRow[] {
  const chain: ApiKeyRow[] = [];
  for (let next = keyId; next !== null && chain.length <= MOST_LEVELS; ) {
    const row = keyById(db, { id: next });
    if (row) chain.push(row);
    next = row?.budgetKeyId ?? null;
  }
  return chain;
}

export type Spent = Payer & { until: number; ms: number; micros: number };

/** Called in the commit of the charge. The part of a stretch that lies in another month counts there. */
export function spend(tx: Tx, { workspaceId, keyId, until, ms, micros }: Spent, now: number) {
  const shares = byMonth({ until, ms, amount: micros }).filter(({ amount }) => amount > 0);
  if (shares.length === 0) return;
  for (const { id } of chainOf(tx, keyId))
    for (const { month, amount } of shares) add(tx).run({ keyId: id, month, workspaceId, amount, now });
}

/** Charges of the key, and of the keys that share its budget, in the month of `now`. */
export const chargedMicros = (db: Db, keyId: string, now: number): number =>
  spendingOf(db, { keyId, month: monthOf(now) })?.spentMicros ?? 0;

type Reading = Pick<Ctx, "db" | "clock" | "state">;
export type Budget = { key: ApiKeyRow; budgetMicros: number; usedMicros: number };

/** The budget of the chain with the least left; null: no key has one. Running work that is not charged yet counts. */
export function tightestBudget(ctx: Reading, { workspaceId, keyId }: Payer): Budget | null {
  const now = ctx.clock.now();
  const chain = chainOf(ctx.db, keyId).filter(({ monthlyBudgetMicros }) => monthlyBudgetMicros !== null);
  if (chain.length === 0) return null;
  const meters = metersOf(ctx, workspaceId);
  const budgets = chain.map((key) => ({
    key,
    budgetMicros: key.monthlyBudgetMicros as number,
    usedMicros: chargedMicros(ctx.db, key.id, now) + runningMicros(ctx.db, key.id, meters),
  }));
  return budgets.reduce((least, each) => (leftOf(each) < leftOf(least) ? each : least));
}

export const leftOf = ({ budgetMicros, usedMicros }: Budget): number => budgetMicros - usedMicros;

const runningMicros = (db: Db, id: string, meters: readonly Meter[]): number =>
  meters
    .filter(({ keyId }) => chainOf(db, keyId).some((key) => key.id === id))
    .reduce((sum, { monthMicros }) => sum + monthMicros, 0);
