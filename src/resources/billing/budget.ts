/**
 * What API keys have spent in a month of UTC, and what their budgets leave. A charge counts for the key that caused it
 * and for each key whose budget that key shares, in the commit that books the charge.
 */
import { and, eq, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { byMonth, monthOf } from "../../lib/months.ts";
import { type Db, prepared, type Tx } from "../../platform/db/db.ts";
import { preparedRow } from "../../platform/db/row.ts";
import { type ApiKeyRow, apiKeys } from "../api_keys/table.ts";
import { apiKeySpending } from "./table.ts";
import { type Meter, metersOf } from "./usage.ts";

/** `keyId`: the key that caused it; null: made before keys were written down, or by no key. */
export type Payer = { workspaceId: string; keyId: string | null };

/** Keys above each other that each have a smaller budget than the one above; `api_keys` refuses to make more. */
export const MOST_LEVELS = 16;

const keyById = preparedRow(apiKeys, eq(apiKeys.id, sql.placeholder("id")));
const spendingOf = preparedRow(
  apiKeySpending,
  and(eq(apiKeySpending.keyId, sql.placeholder("keyId")), eq(apiKeySpending.month, sql.placeholder("month"))),
);
const add = prepared((db) =>
  db.$client.prepare<unknown, [string, string, string, number, number]>(
    `INSERT INTO api_key_spending (key_id, month, workspace_id, spent_micros, updated_at) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET spent_micros = spent_micros + excluded.spent_micros, updated_at = excluded.updated_at`,
  ),
);

/** The key, then the keys whose budgets it shares. Revoked keys too: what they started goes on. */
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

/** In the commit of the charge. A stretch that began in another month counts there with its part. */
export function spend(tx: Tx, { workspaceId, keyId, until, ms, micros }: Spent, now: number) {
  const shares = byMonth({ until, ms, amount: micros }).filter(({ amount }) => amount > 0);
  if (shares.length === 0) return;
  for (const { id } of chainOf(tx, keyId))
    for (const { month, amount } of shares) add(tx).run(id, month, workspaceId, amount, now);
}

/** By the key and by the keys that share its budget, in the month of `now`, as far as it is charged. */
export const chargedMicros = (db: Db, keyId: string, now: number): number =>
  spendingOf(db, { keyId, month: monthOf(now) })?.spentMicros ?? 0;

type Reading = Pick<Ctx, "db" | "clock" | "state">;
export type Budget = { key: ApiKeyRow; budgetMicros: number; usedMicros: number };

/** The budget of the chain that has least left; null: no key in it has one. What runs and is not charged yet is used. */
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
