import { and, eq, gt, inArray, lt, ne, or, sql } from "drizzle-orm";
import type { Ctx, Principal, SessionPrincipal } from "../../../context.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { allows } from "../../../lib/scopes.ts";
import { isoTime } from "../../../lib/time.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { write } from "../../../platform/db/db.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import * as keys from "../api_keys/service.ts";
import { apiKeys } from "../api_keys/table.ts";
import { people, users } from "../people/table.ts";
import * as workspaces from "../workspaces/service.ts";
import { IDLE_MS } from "./authenticate.ts";
import type { BrowserSession, ListedSession } from "./schema.ts";
import { type BrowserSessionRow, browserSessions } from "./table.ts";
import { csrfOf, hashOf, mintToken } from "./token.ts";

export const LONGEST_MS = 7 * DAY_MS;

const insert = preparedInsert(browserSessions);
const byId = preparedRow(browserSessions, eq(browserSessions.id, sql.placeholder("id")));

/** The client that signs in, and how. */
export type Origin = { method: BrowserSessionRow["method"]; address: string | null; agent: string | null };

const LONGEST_AGENT = 300;

/** The token goes into the cookie and is stored nowhere. */
export function create(
  ctx: Ctx,
  who: Principal,
  { method, address, agent }: Origin,
): { token: string; session: BrowserSession } {
  const now = ctx.clock.now();
  const token = mintToken();
  const row = write(ctx.db, (tx) =>
    insert(tx, {
      id: newId("brs", now),
      hash: hashOf(token),
      workspaceId: who.workspaceId,
      keyId: who.keyId,
      createdAt: now,
      lastUsedAt: now,
      expiresAt: now + LONGEST_MS,
      userId: who.userId ?? null,
      method,
      address,
      agent: agent?.slice(0, LONGEST_AGENT) ?? null,
    }),
  );
  return { token, session: present(ctx, row, csrfOf(token)) };
}

/** The session that the request's cookie names. */
export function current(ctx: Ctx, session: SessionPrincipal): BrowserSession {
  const row = byId(ctx.db, { id: session.sessionId });
  if (!row) throw new AppError("resource_not_found", "This browser session does not exist any more");
  return present(ctx, row, session.csrf);
}

function present(ctx: Ctx, row: BrowserSessionRow, csrf: string): BrowserSession {
  const workspace = workspaces.mustGet(ctx, row.workspaceId);
  const key = keys.mustGet(ctx, row.workspaceId, row.keyId);
  return {
    object: "browser_session",
    id: row.id,
    csrf_token: csrf,
    user: userOf(ctx, row.userId),
    workspace: { id: workspace.id, name: workspace.name },
    key: { id: key.id, name: key.name, key_prefix: key.prefix, scopes: key.scopes },
    created_at: isoTime(row.createdAt),
    expires_at: isoTime(row.expiresAt),
  };
}

function userOf({ db }: Pick<Ctx, "db">, userId: string | null): BrowserSession["user"] {
  if (userId === null) return null;
  const { id, role } = users;
  const { email, name } = people;
  const row = db
    .select({ id, email, name, role })
    .from(users)
    .innerJoin(people, eq(people.id, users.personId))
    .where(eq(users.id, userId))
    .get();
  return row ?? null;
}

/** The sessions of the caller: of the same user, or made from the same key. */
export const list = (ctx: Ctx, principal: Principal, query: PageQuery, current: string | undefined) =>
  listOfKey(ctx, seatOf(ctx, principal) ?? principal.keyId, query, current);

/** A user's sessions all have the seat as their key. `current`: the session of the request. */
export const listOfKey = (ctx: Ctx, keyId: string, query: PageQuery, current: string | undefined) =>
  page(ctx.db, browserSessions, isAlive(ctx, keyId), query, (row): ListedSession => {
    return {
      object: "browser_session",
      id: row.id,
      method: row.method,
      address: row.address,
      user_agent: row.agent,
      current: row.id === current,
      last_used_at: isoTime(lastUseOf(ctx, row)),
      created_at: isoTime(row.createdAt),
      expires_at: isoTime(row.expiresAt),
    };
  });

const lastUseOf = (ctx: Pick<Ctx, "state">, { id, lastUsedAt }: Pick<BrowserSessionRow, "id" | "lastUsedAt">) =>
  Math.max(lastUsedAt, ctx.state.browserSessions.lastUse(id) ?? 0);

/** How many sessions of this key go on, and the last use of one. Null: there is none. */
export function useOf(ctx: Pick<Ctx, "db" | "clock" | "state">, keyId: string) {
  const { id, lastUsedAt } = browserSessions;
  const rows = ctx.db.select({ id, lastUsedAt }).from(browserSessions).where(isAlive(ctx, keyId)).all();
  return {
    sessions: rows.length,
    lastUsedAt: rows.length === 0 ? null : Math.max(...rows.map((row) => lastUseOf(ctx, row))),
  };
}

const isAlive = (ctx: Pick<Ctx, "clock">, keyId: string) =>
  and(
    eq(browserSessions.keyId, keyId),
    gt(browserSessions.expiresAt, ctx.clock.now()),
    gt(browserSessions.lastUsedAt, ctx.clock.now() - IDLE_MS),
  );

const seatOf = ({ db }: Ctx, { userId }: Principal): string | undefined =>
  userId ? db.select({ id: users.keyId }).from(users).where(eq(users.id, userId)).get()?.id : undefined;

export const remove = (ctx: Ctx, id: string) =>
  write(ctx.db, (tx) => tx.delete(browserSessions).where(eq(browserSessions.id, id)).run());

/** Ends a session of the caller. A caller who may change the account may end every session of the workspace. */
export function end(ctx: Ctx, principal: Principal, id: string) {
  const mayEnd = allows(principal.scopes, "account", false)
    ? eq(browserSessions.workspaceId, principal.workspaceId)
    : eq(browserSessions.keyId, seatOf(ctx, principal) ?? principal.keyId);
  const ended = write(ctx.db, (tx) =>
    tx
      .delete(browserSessions)
      .where(and(eq(browserSessions.id, id), mayEnd))
      .returning()
      .get(),
  );
  if (!ended) throw new AppError("resource_not_found", `No browser session ${id.slice(0, 80)}`, { param: "id" });
}

/** Ends the session that a browser had before it signs in again. */
export const removeByToken = (ctx: Ctx, token: string) =>
  write(ctx.db, (tx) =>
    tx
      .delete(browserSessions)
      .where(eq(browserSessions.hash, hashOf(token)))
      .run(),
  );

/** Ends all sessions of a user but `keep`. */
export const removeOfUser = (ctx: Ctx, userId: string, keep = "") =>
  write(ctx.db, (tx) =>
    tx
      .delete(browserSessions)
      .where(and(eq(browserSessions.userId, userId), ne(browserSessions.id, keep)))
      .run(),
  );

/** Deletes sessions that are over, and sessions of revoked keys. */
export const prune = (ctx: Ctx): Promise<number> => {
  const now = ctx.clock.now();
  return gradually(ctx.db, (tx, rows) => {
    const over = tx
      .select({ id: browserSessions.id })
      .from(browserSessions)
      .innerJoin(apiKeys, eq(apiKeys.id, browserSessions.keyId))
      .where(
        or(
          lt(browserSessions.expiresAt, now),
          lt(browserSessions.lastUsedAt, now - IDLE_MS),
          eq(apiKeys.status, "revoked"),
        ),
      )
      .limit(rows)
      .all();
    const ids = over.map(({ id }) => id);
    tx.delete(browserSessions).where(inArray(browserSessions.id, ids)).run();
    return ids.length;
  });
};
