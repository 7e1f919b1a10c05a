import { eq, sql } from "drizzle-orm";
import type { Ctx, Principal } from "../../context.ts";
import { hashKey, looksLikeKey } from "../../lib/api_key.ts";
import { AppError } from "../../lib/errors.ts";
import { oncePer } from "../../lib/once_per.ts";
import { type Db, prepared, write } from "../../platform/db.ts";
import { workspaces } from "../workspaces/table.ts";
import { apiKeys } from "./table.ts";

const byHash = prepared((db) =>
  db
    .select({
      id: apiKeys.id,
      workspaceId: apiKeys.workspaceId,
      scopes: apiKeys.scopes,
      status: apiKeys.status,
      expiresAt: apiKeys.expiresAt,
      workspace: workspaces.status,
    })
    .from(apiKeys)
    .innerJoin(workspaces, eq(workspaces.id, apiKeys.workspaceId))
    .where(eq(apiKeys.hash, sql.placeholder("hash")))
    .prepare(),
);

/** Asks the database every time: a key revoked from the command line stops at its next request. */
export function authenticate(ctx: Pick<Ctx, "db" | "clock">, key: string | undefined): Principal {
  if (key === undefined)
    throw new AppError(
      "missing_api_key",
      "Send an API key: Authorization: Bearer vk_… (make one with `verk keys create`)",
    );
  const row = looksLikeKey(key) ? byHash(ctx.db).get({ hash: hashKey(key) }) : undefined;
  if (!row) throw new AppError("invalid_api_key", "This API key is not known here");
  const now = ctx.clock.now();
  if (row.status === "revoked") throw new AppError("revoked_api_key", "This API key was revoked");
  if (row.expiresAt !== null && row.expiresAt <= now) throw new AppError("revoked_api_key", "This API key has expired");
  if (row.workspace !== "active")
    throw new AppError("revoked_api_key", `The workspace of this key is ${row.workspace}`);
  usesOf(ctx.db).set(row.id, now);
  return { workspaceId: row.workspaceId, keyId: row.id, scopes: row.scopes };
}

/** When each key was last used, gathered in memory: a write on every request would cost more than the request. */
const usesOf = oncePer((_db: Db) => new Map<string, number>());

/** Writes the gathered times down; the loop calls it, and the shutdown. A kill loses at most one interval of them. */
export function recordUses(db: Db) {
  const uses = usesOf(db);
  if (uses.size === 0) return;
  write(db, (tx) => {
    for (const [id, at] of uses) tx.update(apiKeys).set({ lastUsedAt: at }).where(eq(apiKeys.id, id)).run();
  });
  uses.clear();
}
