import { eq, sql } from "drizzle-orm";
import type { Ctx, Principal } from "../../context.ts";
import { RefusedKey } from "../../http/auth.ts";
import { AppError } from "../../lib/errors.ts";
import { oncePer } from "../../lib/once_per.ts";
import { type Db, freshSnapshot, generationOf, prepared, write } from "../../platform/db/db.ts";
import { workspaces } from "../workspaces/table.ts";
import { hashKey, looksLikeKey } from "./key_text.ts";
import { apiKeys } from "./table.ts";

const byHash = prepared((db) =>
  db
    .select({
      keyId: apiKeys.id,
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

type Known = Principal & { status: string; workspace: string; expiresAt: number | null };
type Seen = { known: Known; generation: number; at: number };

/**
 * A key that was just let in is let in again without a query, as long as this process has written nothing
 * since and a second has not passed. So a key revoked here stops at its next request, and one revoked by
 * another process (the command line) within a second.
 */
const TRUST_MS = 1_000;
const MOST_SEEN = 10_000;
const seenOf = oncePer((_db: Db) => new Map<string, Seen>());

export function authenticate(ctx: Pick<Ctx, "db" | "clock">, key: string | undefined): Principal {
  if (key === undefined)
    throw new AppError(
      "missing_api_key",
      "Send an API key: Authorization: Bearer vk_… (make one with `verk keys create`)",
    );
  const now = ctx.clock.now();
  const known = lookUp(ctx.db, key, now);
  if (!known) throw new AppError("invalid_api_key", "This API key is not known here");
  if (known.status === "revoked") throw new RefusedKey("This API key was revoked", known);
  if (known.expiresAt !== null && known.expiresAt <= now) throw new RefusedKey("This API key has expired", known);
  if (known.workspace !== "active") throw new RefusedKey(`The workspace of this key is ${known.workspace}`, known);
  return known;
}

function lookUp(db: Db, key: string, now: number): Known | undefined {
  const hash = hashKey(key);
  const seen = seenOf(db);
  const generation = generationOf(db);
  const last = seen.get(hash);
  if (last && last.generation === generation && Math.abs(now - last.at) < TRUST_MS) return last.known;
  freshSnapshot(db); // a key that the command line has just made must work
  const known = looksLikeKey(key) ? byHash(db).get({ hash }) : undefined;
  if (!known) return undefined;
  if (seen.size >= MOST_SEEN) seen.clear();
  seen.set(hash, { known, generation, at: now });
  if (known.status === "active") usesOf(db).set(known.keyId, now);
  return known;
}

/** When each key was last used, to the second, gathered in memory: a write on every request would cost more than it. */
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
