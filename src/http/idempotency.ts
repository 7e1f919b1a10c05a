import { and, eq, lt, sql } from "drizzle-orm";
import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Ctx, Principal } from "../context.ts";
import { AppError } from "../lib/errors.ts";
import { pathOf } from "../lib/net/request_target.ts";
import { HOUR_MS } from "../lib/units.ts";
import { type Db, prepared, type Tx, write } from "../platform/db/db.ts";
import { gradually } from "../platform/db/gradually.ts";
import { setMade } from "./request_state.ts";

export const idempotencyKeys = sqliteTable(
  "idempotency_keys",
  {
    workspaceId: text("workspace_id").notNull(),
    key: text("key").notNull(),
    fingerprint: text("fingerprint").notNull(),
    status: integer("status").notNull(),
    responseSealed: text("response_sealed").notNull(), // sealed: the answer may hold data of users
    createdAt: integer("created_at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.workspaceId, t.key] })],
);

const byKey = prepared((db) =>
  db
    .select()
    .from(idempotencyKeys)
    .where(
      and(
        eq(idempotencyKeys.workspaceId, sql.placeholder("workspaceId")),
        eq(idempotencyKeys.key, sql.placeholder("key")),
      ),
    )
    .prepare(),
);

/**
 * The fields of the context that a creation needs. Given the whole context, Elysia would parse cookies and all headers.
 */
export type Creation = {
  request: Request;
  principal: Principal;
  body?: unknown;
  set: { status?: number | string; headers: Record<string, unknown> };
};

export type Once = {
  /** The stored answer to the same request. Call it inside the commit that makes the resource. */
  before: (tx: Tx) => object | undefined;
  keep: (tx: Tx, answer: object) => void;
};

/** Undefined without an Idempotency-Key. */
function onceOnly(ctx: Ctx, c: Creation): Once | undefined {
  const key = c.request.headers.get("idempotency-key");
  if (key === null) return undefined;
  if (key.length === 0 || key.length > 255)
    throw new AppError("invalid_request", "Idempotency-Key takes 1 to 255 characters", { param: "Idempotency-Key" });
  const { workspaceId } = c.principal;
  const fingerprint = fingerprintOf(c);
  const aad = `idempotency:${workspaceId}:${key}`;
  return {
    before(tx) {
      const seen = byKey(tx).get({ workspaceId, key });
      if (!seen || seen.createdAt <= ctx.state.trustedClock.now() - ctx.config.http.idempotency_hours * HOUR_MS)
        return undefined;
      if (seen.fingerprint !== fingerprint)
        throw new AppError("idempotency_mismatch", "This Idempotency-Key was used with another request", {
          param: "Idempotency-Key",
        });
      c.set.status = seen.status;
      c.set.headers["idempotent-replayed"] = "true";
      return JSON.parse(new TextDecoder().decode(ctx.secrets.open(seen.responseSealed, aad))) as object;
    },
    keep(tx, answer) {
      const row = {
        fingerprint,
        status: Number(c.set.status),
        responseSealed: ctx.secrets.seal(JSON.stringify(answer), aad),
        createdAt: ctx.state.trustedClock.now(), // a wrong clock must not make a retry a second creation
      };
      tx.insert(idempotencyKeys)
        .values({ workspaceId, key, ...row })
        .onConflictDoUpdate({ target: [idempotencyKeys.workspaceId, idempotencyKeys.key], set: row })
        .run();
    },
  };
}

/** `field`: what the first answer alone shows. `fix`: what to do if it is lost. */
export type ShownOnce = { field: string; fix: string };

/** The answer that is kept for a repeated request. It is never more than the caller may read later. */
function withoutSecret(answer: object, { field, fix }: ShownOnce): object {
  const { [field]: _, ...rest } = answer as Record<string, unknown>;
  return { ...rest, notice: `${field} is shown once, in the first answer to this Idempotency-Key. ${fix}` };
}

/**
 * Answers a creating POST: 201 (or the status `make` sets). With an Idempotency-Key the creation and the stored
 * answer are one commit, so a client that retries after a crash gets the first answer or a first try, never a
 * second resource. A failed creation stores nothing.
 */
export function creates<T extends object>(ctx: Ctx, c: Creation, make: () => T, secret?: ShownOnce): T {
  c.set.status = 201;
  const once = onceOnly(ctx, c);
  const answer = once ? makeOnce(ctx, once, make, secret) : make();
  setMade(c.request, answer);
  return answer;
}

const makeOnce = <T extends object>(ctx: Ctx, once: Once, make: () => T, secret?: ShownOnce): T =>
  write<object>(ctx.db, (tx) => {
    const before = once.before(tx);
    if (before) return before;
    const answer = make();
    once.keep(tx, secret ? withoutSecret(answer, secret) : answer);
    return answer;
  }) as T; // write() cannot see through the type parameter

/**
 * Like `creates`, for a resource that is made later than in this turn of the event loop. `make` calls `before` first,
 * and `keep` in the commit that holds the new resource. Requests with the same key run one after the other.
 */
export async function createsLater<T>(ctx: Ctx, c: Creation, make: (once?: Once) => Promise<T>): Promise<T> {
  c.set.status = 201;
  const once = onceOnly(ctx, c);
  const answer = await (once ? inTurn(ctx, c, () => make(once)) : make());
  setMade(c.request, answer);
  return answer;
}

function inTurn<T>(ctx: Ctx, c: Creation, make: () => Promise<T>): Promise<T> {
  const key = `${c.principal.workspaceId} ${c.request.headers.get("idempotency-key")}`;
  const { creations } = ctx.state.http;
  const mine = (creations.get(key) ?? Promise.resolve()).catch(() => {}).then(make);
  creations.set(key, mine);
  const forget = () => {
    if (creations.get(key) === mine) creations.delete(key);
  };
  mine.then(forget, forget);
  return mine;
}

/**
 * Hashes the validated body, so that key order and ignored fields do not make a retry look like another request. The
 * scopes are part of it: a stored answer goes only to a key that could have made it.
 */
function fingerprintOf({ request, principal, body }: Creation): string {
  const hash = new Bun.CryptoHasher("sha256");
  const scopes = [...principal.scopes].sort().join();
  hash.update(`${request.method} ${pathOf(request)} ${scopes}\n${JSON.stringify(body ?? null)}`);
  return hash.digest("hex");
}

export const pruneIdempotencyKeys = (db: Db, before: number): Promise<number> =>
  gradually(db, (tx, rows) => {
    const { workspaceId, key, createdAt } = idempotencyKeys;
    const old = tx.select({ workspaceId, key }).from(idempotencyKeys).where(lt(createdAt, before)).limit(rows);
    return tx.delete(idempotencyKeys).where(sql`(${workspaceId}, ${key}) IN ${old}`).returning({ key }).all().length;
  });
