import { and, eq, gt, isNull, ne, or, sql } from "drizzle-orm";
import type { Ctx, Principal, Scope } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { transition } from "../../../events/lifecycle.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { boundedPriority } from "../../../lib/chat/priority.ts";
import { COMMAND_LINE_KEY } from "../../../lib/command_line_key.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { microsOf, usdOf } from "../../../lib/money.ts";
import { isoOrNull } from "../../../lib/schema.ts";
import { narrow, within } from "../../../lib/scopes.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { type Db, write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import * as budgets from "../../money/billing/budget.ts";
import { hashKey, mintKey, prefixOf } from "./key_text.ts";
import { machine, report } from "./machine.ts";
import { type CreateApiKey, present } from "./schema.ts";
import { type ApiKeyRow, apiKeys } from "./table.ts";

/** Keys and seats that work now: not revoked and not expired. */
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
  return byId(ctx.db, { id, workspaceId }) ?? notFound(id);
}

/** Null: none, or the key is gone. */
export const priorityOf = ({ db }: Pick<Ctx, "db">, workspaceId: string, id: string) =>
  byId(db, { id, workspaceId })?.priority ?? null;

/** A seat is no key to the callers of the API. */
export function mustGetKey(ctx: Ctx, workspaceId: string, id: string): ApiKeyRow {
  const row = mustGet(ctx, workspaceId, id);
  return row.kind === "key" ? row : notFound(id);
}

function notFound(id: string): never {
  throw new AppError("resource_not_found", `No API key ${id.slice(0, 80)}`, { param: "id" });
}

export const list = (ctx: Ctx, workspaceId: string, query: PageQuery) =>
  page(ctx.db, apiKeys, and(active(ctx, workspaceId), eq(apiKeys.kind, "key")), query, (row) => show(ctx, row));

export const show = ({ db, clock }: Pick<Ctx, "db" | "clock">, row: ApiKeyRow) =>
  present(row, { spentMicros: budgets.chargedMicros(db, row.id, clock.now()) });

/** True if there is, or was, a key in this installation. */
export const someKeyExists = (db: Db): boolean =>
  db.select({ id: apiKeys.id }).from(apiKeys).limit(1).get() !== undefined;

/**
 * True if a person has, or had, a key. The command line makes a key for itself with the first command beside a server;
 * that one does not end the setup link, which its user may not have opened yet.
 */
export const someChosenKeyExists = (db: Db): boolean =>
  db.select({ id: apiKeys.id }).from(apiKeys).where(ne(apiKeys.name, COMMAND_LINE_KEY)).limit(1).get() !== undefined;

/** True for workspaces of the operator. A tenant cannot make such a key: `createBy` grants no scope the maker lacks. */
export function holdsAdminKey(ctx: Pick<Ctx, "db" | "clock">, workspaceId: string): boolean {
  const keys = ctx.db.select({ scopes: apiKeys.scopes }).from(apiKeys).where(active(ctx, workspaceId)).all();
  return keys.some(({ scopes }) => scopes.includes("admin"));
}

/** A key that is created by a key gets at most that key's scopes, expiry and budget. */
export function createBy(ctx: Ctx, principal: Principal, input: CreateApiKey) {
  const maker = mustGet(ctx, principal.workspaceId, principal.keyId);
  const ownership = { budgetKeyId: sharedBudget(ctx, maker), userId: maker.userId };
  return create(ctx, principal.workspaceId, boundedBy(ctx, principal, input), ownership);
}

/** The input with the bounds of the caller's key where it names none. Throws if it asks for more than that key has. */
export function boundedBy(ctx: Ctx, principal: Principal, input: CreateApiKey): CreateApiKey {
  if (!within(input.scopes, principal.scopes))
    throw new AppError(
      "missing_scope",
      `scopes: this key may only create keys with its own scopes: ${principal.scopes.join(", ")}`,
      {
        param: "/scopes",
      },
    );
  const { expiresAt, monthlyBudgetMicros, priority } = mustGet(ctx, principal.workspaceId, principal.keyId);
  const bounded = {
    ...input,
    expires_at:
      input.expires_at ?? isoOrNull(input.expires_at === null ? expiresAt : earlier(expiresAt, usualExpiry(ctx))),
    monthly_budget_usd: input.monthly_budget_usd ?? (monthlyBudgetMicros === null ? null : usdOf(monthlyBudgetMicros)),
    priority: boundedPriority(input.priority ?? null, priority),
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
  return bounded;
}

/**
 * Returns the key whose budget a new key shares: the spending of both counts against it. A maker with the same budget
 * as its own parent adds no limit, and is skipped. So keys that replace each other do not form a long chain.
 */
export function sharedBudget({ db }: Pick<Ctx, "db">, maker: ApiKeyRow): string | null {
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

const earlier = (a: number | null, b: number | null) => (a === null || b === null ? (a ?? b) : Math.min(a, b));

/** The expiry of a key whose maker names none. The first key of an installation stays: its owner would be locked out. */
const usualExpiry = ({ db, clock, config }: Ctx): number | null => {
  const { life_days: days } = config.api_keys;
  return days === 0 || !someKeyExists(db) ? null : clock.now() + days * DAY_MS;
};

/** `userId`: null for the key of a service. */
type Ownership = { budgetKeyId?: string | null; userId?: string | null };

/** Returns the plaintext key, which is stored nowhere. */
export function create(
  ctx: Ctx,
  workspaceId: string,
  input: CreateApiKey,
  { budgetKeyId = null, userId = null }: Ownership = {},
): { row: ApiKeyRow; key: string } {
  const now = ctx.clock.now();
  const { expires_at: expiry = isoOrNull(usualExpiry(ctx)) } = input;
  const expiresAt = expiry === null ? null : Date.parse(expiry);
  if (expiresAt !== null && expiresAt <= now)
    throw new AppError("schema", "expires_at: must be in the future", { param: "/expires_at" });
  const key = mintKey();
  const row = add(ctx, {
    workspaceId,
    name: input.name,
    hash: hashKey(key),
    prefix: prefixOf(key),
    kind: "key",
    userId,
    scopes: [...new Set(input.scopes)],
    metadata: input.metadata,
    expiresAt,
    budgetKeyId,
    priority: input.priority ?? null,
    monthlyBudgetMicros: input.monthly_budget_usd === null ? null : microsOf(input.monthly_budget_usd),
  });
  return { row, key };
}

type SeatInput = { workspaceId: string; userId: string; name: string; scopes: readonly Scope[] };

/** The seat of a user. No text has such a hash, so no request can present it as a key. */
export const createSeat = (ctx: Ctx, { scopes, userId, ...seat }: SeatInput): ApiKeyRow =>
  add(ctx, {
    ...seat,
    userId,
    scopes: [...scopes],
    kind: "seat",
    hash: `seat:${newId("key", ctx.clock.now())}`,
    prefix: "",
    metadata: {},
    expiresAt: null,
    budgetKeyId: null,
    priority: null,
    monthlyBudgetMicros: null,
  });

type NewRow = Omit<ApiKeyRow, "id" | "status" | "lastUsedAt" | "revokedAt" | "createdAt" | "updatedAt">;

function add(ctx: Ctx, fields: NewRow): ApiKeyRow {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const times = { createdAt: now, updatedAt: now, lastUsedAt: null, revokedAt: null };
    const row = insert(tx, { ...fields, ...times, id: newId("key", now), status: machine.initial });
    emit(tx, "api_key.created", { workspaceId: fields.workspaceId, now }, report(row));
    return row;
  });
}

/** Keys of a user that work, the seat included. */
const ofUser = (db: Db, userId: string) =>
  db
    .select()
    .from(apiKeys)
    .where(and(eq(apiKeys.userId, userId), eq(apiKeys.status, "active")))
    .all();

/** Gives the seat of a user these scopes, and no key of the user more. A key that is left without a scope is revoked. */
export function limitUser(ctx: Ctx, userId: string, scopes: readonly Scope[]) {
  write(ctx.db, (tx) => {
    for (const row of ofUser(tx, userId)) {
      const kept = row.kind === "seat" ? [...scopes] : narrow(row.scopes, scopes);
      if (kept.length === 0) revokeRow(ctx, row.id);
      else tx.update(apiKeys).set({ scopes: kept, updatedAt: ctx.clock.now() }).where(eq(apiKeys.id, row.id)).run();
    }
  });
}

/** Without the seat the user cannot sign in again. */
export function revokeAllOf(ctx: Ctx, userId: string, { seat }: { seat: boolean }) {
  write(ctx.db, (tx) => {
    for (const { id, kind } of ofUser(tx, userId)) if (seat || kind === "key") revokeRow(ctx, id);
  });
}

/** Revoking twice is allowed: the second call answers like the first and emits no event. */
export function revoke(ctx: Ctx, workspaceId: string, id: string): ApiKeyRow {
  const row = mustGetKey(ctx, workspaceId, id);
  return revokeRow(ctx, id) ?? row;
}

function revokeRow(ctx: Ctx, id: string): ApiKeyRow | undefined {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => transition(tx, machine, "revoke", { id, now }, { revokedAt: now }));
}
