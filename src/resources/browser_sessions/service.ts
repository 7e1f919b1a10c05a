import { eq, inArray, lt, or, sql } from "drizzle-orm";
import type { Ctx, Principal, SessionPrincipal } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { newId } from "../../lib/ids.ts";
import { isoTime } from "../../lib/time.ts";
import { DAY_MS } from "../../lib/units.ts";
import { write } from "../../platform/db/db.ts";
import { gradually } from "../../platform/db/gradually.ts";
import { preparedInsert, preparedRow } from "../../platform/db/row.ts";
import * as keys from "../api_keys/service.ts";
import { apiKeys } from "../api_keys/table.ts";
import * as workspaces from "../workspaces/service.ts";
import { IDLE_MS } from "./authenticate.ts";
import type { BrowserSession } from "./schema.ts";
import { type BrowserSessionRow, browserSessions } from "./table.ts";
import { csrfOf, hashOf, mintToken } from "./token.ts";

export const LONGEST_MS = 7 * DAY_MS;

const insert = preparedInsert(browserSessions);
const byId = preparedRow(browserSessions, eq(browserSessions.id, sql.placeholder("id")));

/** The token goes into the cookie and is stored nowhere. */
export function create(ctx: Ctx, who: Principal): { token: string; session: BrowserSession } {
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
    workspace: { id: workspace.id, name: workspace.name },
    key: { id: key.id, name: key.name, key_prefix: key.prefix, scopes: key.scopes },
    created_at: isoTime(row.createdAt),
    expires_at: isoTime(row.expiresAt),
  };
}

export const remove = (ctx: Ctx, id: string) =>
  write(ctx.db, (tx) => tx.delete(browserSessions).where(eq(browserSessions.id, id)).run());

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
