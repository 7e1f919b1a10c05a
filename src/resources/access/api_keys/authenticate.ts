import { eq, type SQL, sql } from "drizzle-orm";
import type { Ctx, Principal } from "../../../context.ts";
import { RefusedKey } from "../../../http/auth.ts";
import { AppError } from "../../../lib/errors.ts";
import { type Db, generationOf, prepared, write } from "../../../platform/db/db.ts";
import { freshSnapshot } from "../../../platform/db/snapshot.ts";
import { workspaces } from "../workspaces/table.ts";
import { hashKey, looksLikeKey } from "./key_text.ts";
import { apiKeys } from "./table.ts";

const owners = (db: Db, where: SQL) =>
  db
    .select({
      keyId: apiKeys.id,
      workspaceId: apiKeys.workspaceId,
      scopes: apiKeys.scopes,
      userId: apiKeys.userId,
      status: apiKeys.status,
      expiresAt: apiKeys.expiresAt,
      workspace: workspaces.status,
    })
    .from(apiKeys)
    .innerJoin(workspaces, eq(workspaces.id, apiKeys.workspaceId))
    .where(where)
    .prepare();
const byHash = prepared((db) => owners(db, eq(apiKeys.hash, sql.placeholder("hash"))));
const byId = prepared((db) => owners(db, eq(apiKeys.id, sql.placeholder("id"))));

export type KeyOwner = Principal & { status: string; workspace: string; expiresAt: number | null };
type KeysCtx = Pick<Ctx, "db" | "clock"> & { state: Pick<Ctx["state"], "apiKeys"> };

/** `otherwise`: the caller of a key that is no API key, by its hash. */
export function authenticate(
  ctx: KeysCtx,
  key: string | undefined,
  otherwise: (hash: string) => Principal | undefined = () => undefined,
): Principal {
  if (key === undefined)
    throw new AppError(
      "missing_api_key",
      "Send an API key: Authorization: Bearer vk_… (create one with `verk keys create`)",
    );
  const now = ctx.clock.now();
  const owner = lookUp(ctx, key, now);
  if (!owner) {
    const other = looksLikeKey(key) ? otherwise(hashKey(key)) : undefined;
    if (other) return other;
    throw new AppError("invalid_api_key", "This API key does not exist on this server");
  }
  requireUsable(owner, now);
  return owner;
}

/** The caller that a setting of the operator names, by the id of a key. Throws the 401 of a key that cannot be used. */
export function authenticateById({ db, clock }: Pick<Ctx, "db" | "clock">, id: string): Principal {
  const owner = byId(db).get({ id });
  if (!owner)
    throw new AppError("invalid_api_key", `The server's setting names the API key ${id}, which does not exist`);
  requireUsable(owner, clock.now());
  return owner;
}

/** Throws the 401 of a key that is known and refused. */
export function requireUsable(owner: KeyOwner, now: number) {
  if (owner.status === "revoked") throw new RefusedKey("This API key was revoked", owner);
  if (owner.expiresAt !== null && owner.expiresAt <= now) throw new RefusedKey("This API key has expired", owner);
  if (owner.workspace !== "active") throw new RefusedKey(`The workspace of this key is ${owner.workspace}`, owner);
}

function lookUp({ db, state }: KeysCtx, key: string, now: number): KeyOwner | undefined {
  const hash = hashKey(key);
  const generation = generationOf(db);
  const cached = state.apiKeys.cached(hash, generation, now);
  if (cached) return cached;
  freshSnapshot(db); // A key that the command line has just created must work.
  const owner = looksLikeKey(key) ? byHash(db).get({ hash }) : undefined;
  if (!owner) return undefined;
  state.apiKeys.cache(hash, { owner, generation, at: now });
  if (owner.status === "active") state.apiKeys.use(owner.keyId, now);
  return owner;
}

/** Writes the times of last use. Runs in a loop and at shutdown; a kill loses at most one interval. */
export function recordUses({ db, state }: Pick<Ctx, "db" | "state">) {
  state.apiKeys.flushUses((uses) =>
    write(db, (tx) => {
      for (const [id, at] of uses) tx.update(apiKeys).set({ lastUsedAt: at }).where(eq(apiKeys.id, id)).run();
    }),
  );
}
