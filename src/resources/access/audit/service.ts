/** Reads and prunes the audit log; `src/http/audit.ts` writes it. */
import { and, asc, desc, eq, gt, inArray, lt, min, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { requireId } from "../../../http/answer/cursor.ts";
import { type AuditRow, auditLog } from "../../../http/audit.ts";
import type { Named } from "../../../lib/route_names.ts";
import { DAY_MS } from "../../../lib/units.ts";
import type { Db, Tx } from "../../../platform/db/db.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { apiKeys } from "../api_keys/table.ts";
import { people, users } from "../people/table.ts";
import { type AuditQuery, present } from "./schema.ts";

type NameOf = (method: string, path: string) => Named | undefined;

/** Newest first. Ids are in the order of time, and the table is in the order of ids. */
export function list(ctx: Ctx, workspaceId: string, { limit, after, key_id, user_id }: AuditQuery, nameOf: NameOf) {
  const isOfWorkspace = eq(auditLog.workspaceId, workspaceId);
  if (after !== undefined) requireId(auditLog, after);
  const rows = ctx.db
    .select()
    .from(auditLog)
    .where(
      and(
        // Unary plus: SQLite must search the index by key or user, and not the primary key by workspace.
        key_id === undefined && user_id === undefined ? isOfWorkspace : sql`+${auditLog.workspaceId} = ${workspaceId}`,
        key_id === undefined ? undefined : eq(auditLog.keyId, key_id),
        user_id === undefined ? undefined : eq(auditLog.userId, user_id),
        after === undefined ? undefined : lt(auditLog.id, after),
      ),
    )
    .orderBy(desc(auditLog.id))
    .limit(limit + 1)
    .all();
  const shown = rows.slice(0, limit);
  const names = namesOf(ctx, workspaceId, shown);
  const persons = personsOf(ctx, workspaceId, shown);
  const data = shown.map((row) =>
    present(row, {
      named: nameOf(row.method, row.path),
      keyName: names.get(row.keyId) ?? null,
      user: row.userId === null ? null : { id: row.userId, ...(persons.get(row.userId) ?? UNKNOWN) },
    }),
  );
  return { object: "list" as const, data, has_more: rows.length > limit };
}

/** Keys that were revoked keep their rows. */
function namesOf(ctx: Ctx, workspaceId: string, rows: readonly AuditRow[]): Map<string, string> {
  const { id, name } = apiKeys;
  const ids = [...new Set(rows.map((row) => row.keyId))];
  const keys = ctx.db
    .select({ id, name })
    .from(apiKeys)
    .where(and(eq(apiKeys.workspaceId, workspaceId), inArray(id, ids)))
    .all();
  return new Map(keys.map((key) => [key.id, key.name]));
}

const UNKNOWN = { email: null, name: null };

/** Users who were removed keep their rows. */
function personsOf(ctx: Ctx, workspaceId: string, rows: readonly AuditRow[]) {
  const ids = [...new Set(rows.map((row) => row.userId))].filter((id) => id !== null);
  const members = ctx.db
    .select({ id: users.id, email: people.email, name: people.name })
    .from(users)
    .innerJoin(people, eq(people.id, users.personId))
    .where(and(eq(users.workspaceId, workspaceId), inArray(users.id, ids)))
    .all();
  return new Map(members.map(({ id, ...person }) => [id, person]));
}

export async function prune(ctx: Ctx): Promise<void> {
  const before = ctx.clock.now() - ctx.config.audit.retention_days * DAY_MS;
  for (let workspaceId = nextOf(ctx.db, ""); workspaceId !== null; workspaceId = nextOf(ctx.db, workspaceId)) {
    const id = workspaceId;
    await gradually(ctx.db, (tx, rows) => pruneOldest(tx, id, before, rows));
  }
}

/** The next workspace after `after` that has entries. */
const nextOf = (db: Db, after: string): string | null =>
  db
    .select({ id: min(auditLog.workspaceId) })
    .from(auditLog)
    .where(gt(auditLog.workspaceId, after))
    .get()?.id ?? null;

function pruneOldest(tx: Tx, workspaceId: string, before: number, rows: number): number {
  const { id, createdAt } = auditLog;
  const isOfWorkspace = eq(auditLog.workspaceId, workspaceId);
  const oldest = tx.select({ id, createdAt }).from(auditLog).where(isOfWorkspace).orderBy(asc(id)).limit(rows).all();
  const old = oldest.filter((row) => row.createdAt < before).map((row) => row.id);
  if (old.length > 0)
    tx.delete(auditLog)
      .where(and(isOfWorkspace, inArray(id, old)))
      .run();
  return old.length;
}
