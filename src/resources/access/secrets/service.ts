import { and, eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { prepared, write } from "../../../platform/db/db.ts";
import { preparedRow } from "../../../platform/db/row.ts";
import { hostOf, NAME, type PutSecret, present } from "./schema.ts";
import { type SecretRow, secrets } from "./table.ts";

const byName = preparedRow(
  secrets,
  and(eq(secrets.workspaceId, sql.placeholder("workspaceId")), eq(secrets.name, sql.placeholder("name"))),
);

const ofWorkspace = prepared((db) =>
  db
    .select()
    .from(secrets)
    .where(eq(secrets.workspaceId, sql.placeholder("workspaceId")))
    .prepare(),
);

export function mustGet(ctx: Ctx, workspaceId: string, name: string): SecretRow {
  const row = byName(ctx.db, { workspaceId, name });
  if (!row) throw new AppError("resource_not_found", `No secret ${name.slice(0, 80)}`, { param: "name" });
  return row;
}

export const list = (ctx: Ctx, workspaceId: string, query: PageQuery) =>
  page(ctx.db, secrets, eq(secrets.workspaceId, workspaceId), query, present);

/**
 * Creates or replaces a secret. A new value keeps `scope_host` and `metadata` unless the caller sets them: rotating a
 * secret must not allow more hosts.
 */
export function put(
  ctx: Ctx,
  workspaceId: string,
  name: string,
  input: PutSecret,
): { row: SecretRow; created: boolean } {
  if (!NAME.test(name))
    throw new AppError("schema", `name: must match ${NAME.source}, such as API_TOKEN`, { param: "name" });
  const now = ctx.clock.now();
  const sealed = ctx.secrets.seal(input.value, aad(workspaceId, name));
  return write(ctx.db, (tx) => {
    const old = byName(tx, { workspaceId, name });
    const scopeHost = input.scope_host === undefined ? (old?.scopeHost ?? null) : canonical(input.scope_host);
    const metadata = input.metadata ?? old?.metadata ?? {};
    const set = { sealed, scopeHost, metadata, updatedAt: now };
    const row = old
      ? tx.update(secrets).set(set).where(eq(secrets.id, old.id)).returning().get()
      : tx
          .insert(secrets)
          .values({ id: newId("sec", now), workspaceId, name, ...set, createdAt: now })
          .returning()
          .get();
    emit(tx, old ? "secret.updated" : "secret.created", { workspaceId, now }, present(row));
    return { row, created: old === undefined };
  });
}

export function remove(ctx: Ctx, workspaceId: string, name: string): SecretRow {
  return write(ctx.db, (tx) => {
    const row = mustGet(ctx, workspaceId, name);
    tx.delete(secrets).where(eq(secrets.id, row.id)).run();
    emit(tx, "secret.deleted", { workspaceId, now: ctx.clock.now() }, present(row));
    return row;
  });
}

/** For a workspace that is deleted. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const rows = ctx.db.select().from(secrets).where(eq(secrets.workspaceId, workspaceId)).all();
  for (const { name } of rows) remove(ctx, workspaceId, name);
}

/** Decrypts the value for use inside this server. A secret with a `scope_host` opens only for that host. */
export function reveal(ctx: Ctx, workspaceId: string, name: string, host?: string): string {
  const row = mustGet(ctx, workspaceId, name);
  if (row.scopeHost !== null && (host === undefined || hostOf(host) !== row.scopeHost))
    throw new AppError("url_not_allowed", `Secret ${name} may only be sent to ${row.scopeHost}`);
  return open(ctx, row);
}

/** Decrypts a secret whatever its `scope_host`: to find the value in a text and remove it, never to send it. */
export const open = (
  ctx: Pick<Ctx, "secrets">,
  { workspaceId, name, sealed }: Pick<SecretRow, "workspaceId" | "name" | "sealed">,
) => new TextDecoder().decode(ctx.secrets.open(sealed, aad(workspaceId, name)));

/** Every secret of the workspace, still sealed. */
export const sealedOf = (ctx: Ctx, workspaceId: string): SecretRow[] => ofWorkspace(ctx.db).all({ workspaceId });

const aad = (workspaceId: string, name: string) => `${workspaceId}:${name}`;
const canonical = (host: string | null) => (host === null || host === "" ? null : (hostOf(host) ?? null));
