import { and, eq, gt, isNull, or, sql } from "drizzle-orm";
import type { Ctx, Principal } from "../../context.ts";
import { emit } from "../../events/emit.ts";
import { transition } from "../../events/lifecycle.ts";
import { type PageQuery, page } from "../../http/answer/pagination.ts";
import { AppError } from "../../lib/errors.ts";
import { newId } from "../../lib/ids.ts";
import { microsOf, usdOf } from "../../lib/money.ts";
import { isoOrNull } from "../../lib/schema.ts";
import { within } from "../../lib/scopes.ts";
import { write } from "../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../platform/db/row.ts";
import * as budgets from "../billing/budget.ts";
import { hashKey, mintKey, prefixOf } from "./key_text.ts";
import { machine, report } from "./machine.ts";
import { type CreateApiKey, present } from "./schema.ts";
import { type ApiKeyRow, apiKeys } from "./table.ts";

/** Keys that work now: not revoked and not expired. */
const active = ({ clock }: Pick<Ctx, "clock">, workspaceId: string) =>
  and(
    eq(apiKeys.workspaceId, workspaceId),
    eq(apiKeys.status, "active"),
    or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, clock.now())),
  );

const byId = preparedRow(
  apiKeys,
  and(eq(apiKeys.id, sql.placeholder("id")), eq(apiKeys.workspaceId, sql.placeholder("workspaceId"))),
);

const insert = preparedInsert(apiKeys);

export function mustGet(ctx: Ctx, workspaceId: string, id: string): ApiKeyRow {
  const row = byId(ctx.db, { id, workspaceId });
  if (!row) throw new AppError("resource_not_found", `No API key ${id.slice(0, 80)}`, { param: "id" });
  return row;
}

export const list = (ctx: Ctx, workspaceId: string, query: PageQuery) =>
  page(ctx.db, apiKeys, active(ctx, workspaceId), query, (row) => show(ctx, row));

export const show = ({ db, clock }: Pick<Ctx, "db" | "clock">, row: ApiKeyRow) =>
  present(row, { spentMicros: budgets.chargedMicros(db, row.id, clock.now()) });

/** True for workspaces of the operator. A tenant cannot make such a key: `createBy` grants no scope the maker lacks. */
export function holdsAdminKey(ctx: Pick<Ctx, "db" | "clock">, workspaceId: string): boolean {
  const keys = ctx.db.select({ scopes: apiKeys.scopes }).from(apiKeys).where(active(ctx, workspaceId)).all();
  return keys.some(({ scopes }) => scopes.includes("admin"));
}

/** A key that is created by a key gets at most that key's scopes, expiry and budget. */
export function createBy(ctx: Ctx, who: Principal, input: CreateApiKey) {
  if (!within(input.scopes, who.scopes))
    throw new AppError(
      "missing_scope",
      `scopes: this key may only create keys with its own scopes: ${who.scopes.join(", ")}`,
      {
        param: "/scopes",
      },
    );
  const maker = mustGet(ctx, who.workspaceId, who.keyId);
  const { expiresAt, monthlyBudgetMicros } = maker;
  const bounded = {
    ...input,
    expires_at: input.expires_at ?? isoOrNull(expiresAt),
    monthly_budget_usd: input.monthly_budget_usd ?? (monthlyBudgetMicros === null ? null : usdOf(monthlyBudgetMicros)),
  };
  if (expiresAt !== null && Date.parse(bounded.expires_at ?? "") > expiresAt)
    throw new AppError(
      "missing_scope",
      `expires_at: must not be after ${isoOrNull(expiresAt)}, when the key that creates it expires`,
      {
        param: "/expires_at",
      },
    );
  if (monthlyBudgetMicros !== null && microsOf(bounded.monthly_budget_usd ?? 0) > monthlyBudgetMicros)
    throw new AppError(
      "missing_scope",
      `monthly_budget_usd: must be at most ${usdOf(monthlyBudgetMicros)}, the budget of the key that creates it`,
      {
        param: "/monthly_budget_usd",
      },
    );
  return create(ctx, who.workspaceId, bounded, sharedBudget(ctx, maker));
}

/**
 * Returns the key whose budget a new key shares: the spending of both counts against it. A maker with the same budget
 * as its own parent adds no limit, and is skipped. So keys that replace each other do not form a long chain.
 */
function sharedBudget({ db }: Pick<Ctx, "db">, maker: ApiKeyRow): string | null {
  if (maker.monthlyBudgetMicros === null) return maker.budgetKeyId;
  const [, above, ...more] = budgets.chainOf(db, maker.id);
  if (above?.monthlyBudgetMicros === maker.monthlyBudgetMicros) return above.id;
  if (more.length + 2 < budgets.MOST_LEVELS) return maker.id;
  throw new AppError(
    "invalid_request",
    `monthly_budget_usd: at most ${budgets.MOST_LEVELS} keys may share a budget in a chain: create the key with one of the earlier keys`,
    { param: "/monthly_budget_usd" },
  );
}

/** Returns the plaintext key, which is stored nowhere. */
export function create(
  ctx: Ctx,
  workspaceId: string,
  input: CreateApiKey,
  budgetKeyId: string | null = null,
): { row: ApiKeyRow; key: string } {
  const now = ctx.clock.now();
  const expiresAt = input.expires_at === null ? null : Date.parse(input.expires_at);
  if (expiresAt !== null && expiresAt <= now)
    throw new AppError("schema", "expires_at: must be in the future", { param: "/expires_at" });
  const key = mintKey();
  const row = write(ctx.db, (tx) => {
    const made = insert(tx, {
      id: newId("key", now),
      workspaceId,
      name: input.name,
      status: machine.initial,
      hash: hashKey(key),
      prefix: prefixOf(key),
      scopes: [...new Set(input.scopes)],
      monthlyBudgetMicros: input.monthly_budget_usd === null ? null : microsOf(input.monthly_budget_usd),
      metadata: input.metadata,
      expiresAt,
      lastUsedAt: null,
      revokedAt: null,
      createdAt: now,
      updatedAt: now,
      budgetKeyId,
    });
    emit(tx, "api_key.created", { workspaceId, now }, report(made));
    return made;
  });
  return { row, key };
}

/** Revoking twice is allowed: the second call answers like the first and emits no event. */
export function revoke(ctx: Ctx, workspaceId: string, id: string): ApiKeyRow {
  const row = mustGet(ctx, workspaceId, id);
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => transition(tx, machine, "revoke", { id, now }, { revokedAt: now })) ?? row;
}
