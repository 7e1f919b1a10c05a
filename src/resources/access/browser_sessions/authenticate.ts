import { eq, sql } from "drizzle-orm";
import type { Ctx, SessionPrincipal } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { HOUR_MS } from "../../../lib/units.ts";
import { prepared, write } from "../../../platform/db/db.ts";
import { freshSnapshot } from "../../../platform/db/snapshot.ts";
import { requireUsable } from "../api_keys/authenticate.ts";
import { apiKeys } from "../api_keys/table.ts";
import { workspaces } from "../workspaces/table.ts";
import { browserSessions } from "./table.ts";
import { csrfOf, hashOf } from "./token.ts";

export const IDLE_MS = 12 * HOUR_MS;

const byHash = prepared((db) =>
  db
    .select({
      sessionId: browserSessions.id,
      lastUsedAt: browserSessions.lastUsedAt,
      endsAt: browserSessions.expiresAt,
      keyId: apiKeys.id,
      workspaceId: apiKeys.workspaceId,
      scopes: apiKeys.scopes,
      userId: apiKeys.userId,
      status: apiKeys.status,
      expiresAt: apiKeys.expiresAt,
      workspace: workspaces.status,
    })
    .from(browserSessions)
    .innerJoin(apiKeys, eq(apiKeys.id, browserSessions.keyId))
    .innerJoin(workspaces, eq(workspaces.id, apiKeys.workspaceId))
    .where(eq(browserSessions.hash, sql.placeholder("hash")))
    .prepare(),
);

type SessionsCtx = Pick<Ctx, "db" | "clock"> & { state: Pick<Ctx["state"], "browserSessions" | "apiKeys"> };

/**
 * Token of the cookie → caller. The key is looked up on every request: a revoked or expired key ends its sessions at
 * once.
 */
export function authenticateSession({ db, clock, state }: SessionsCtx, token: string): SessionPrincipal {
  const now = clock.now();
  freshSnapshot(db); // the command line may have revoked the key
  const session = byHash(db).get({ hash: hashOf(token) });
  if (!session) throw ended("This browser session does not exist any more: sign in again");
  const lastUse = Math.max(session.lastUsedAt, state.browserSessions.lastUse(session.sessionId) ?? 0);
  if (now >= session.endsAt || now - lastUse >= IDLE_MS) throw ended("This browser session has ended: sign in again");
  requireUsable(session, now);
  state.browserSessions.use(session.sessionId, now);
  state.apiKeys.use(session.keyId, now);
  const { keyId, workspaceId, scopes, userId, sessionId } = session;
  return { keyId, workspaceId, scopes, userId, sessionId, csrf: csrfOf(token) };
}

const ended = (message: string) => new AppError("invalid_api_key", message);

/** Writes the times of last use. Runs in a loop and at shutdown; a kill loses at most one interval. */
export function recordUses({ db, state }: Pick<Ctx, "db" | "state">) {
  state.browserSessions.flushUses((uses) =>
    write(db, (tx) => {
      for (const [id, at] of uses)
        tx.update(browserSessions).set({ lastUsedAt: at }).where(eq(browserSessions.id, id)).run();
    }),
  );
}
