/**
 * Removes workspaces that were deleted long ago, with the records that nothing else removes. The ledger keeps their
 * entries, and the sums of use stay. A workspace that something still refers to, such as a deployment that ended less
 * long ago, stays until that is gone.
 */
import { and, asc, eq, gt, inArray, isNotNull, lt, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import type { Ctx } from "../../../context.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { type Db, prepared, type Tx, write } from "../../../platform/db/db.ts";
import { isForeignKeyViolation } from "../../../platform/db/errors.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { storageUsage } from "../../data/storage_usage/table.ts";
import { detectionBatches } from "../../detection/table.ts";
import { apiKeySpending, creditAccounts } from "../../money/billing/table.ts";
import { models } from "../../serving/models/table.ts";
import { apiKeys } from "../api_keys/table.ts";
import { people } from "../people/table.ts";
import { workspaces } from "./table.ts";

export async function prune(ctx: Ctx, signal?: AbortSignal): Promise<void> {
  const before = ctx.clock.now() - ctx.config.workspaces.retention_days * DAY_MS;
  for (let after = ""; !signal?.aborted; ) {
    const next = nextDeleted(ctx.db, before, after);
    if (next === undefined) return;
    after = next;
    try {
      await removeRecords(ctx.db, next);
      write(ctx.db, (tx) => removeRow(tx, next));
    } catch (error) {
      if (!isForeignKeyViolation(error)) throw error; // something still refers to the workspace
    }
  }
}

/** The exact condition of the index workspaces_deleted. */
const isDeleted = sql`${workspaces.status} = 'deleted'`;

const nextDeleted = (db: Db, before: number, after: string): string | undefined =>
  db
    .select({ id: workspaces.id })
    .from(workspaces)
    .where(and(isDeleted, lt(workspaces.updatedAt, before), gt(workspaces.id, after)))
    .orderBy(asc(workspaces.id))
    .limit(1)
    .get()?.id;

type Records = { table: SQLiteTable & { id: SQLiteColumn; workspaceId: SQLiteColumn }; where: SQL };

/** The first key of the installation stays for ever: see api_keys/prune.ts. */
const isLaterKey = sql`${apiKeys.id} <> (SELECT id FROM api_keys ORDER BY created_at, id LIMIT 1)`;

const RECORDS: readonly Records[] = [
  { table: detectionBatches, where: isNotNull(detectionBatches.finishedAt) },
  { table: models, where: eq(models.status, "deleted") },
  { table: people, where: isNotNull(people.workspaceId) },
];

/** Tables whose rows belong to a workspace and are only marked when they are deleted. The schema names them. */
const markingTables = prepared((db) =>
  db.$client.prepare<{ name: string }, []>(
    `SELECT t.name FROM sqlite_schema AS t WHERE t.type = 'table'
       AND EXISTS (SELECT 1 FROM pragma_foreign_key_list(t.name) WHERE "table" = 'workspaces' AND "from" = 'workspace_id')
       AND 2 = (SELECT count(*) FROM pragma_table_info(t.name) WHERE name IN ('id', 'deleted_at'))
     ORDER BY t.name`,
  ),
);

async function removeRecords(db: Db, workspaceId: string) {
  for (const { name } of markingTables(db).all())
    await gradually(
      db,
      (tx, rows) =>
        tx.$client
          .query(
            `DELETE FROM ${name} WHERE id IN (SELECT id FROM ${name} WHERE workspace_id = ? AND deleted_at IS NOT NULL LIMIT ?)`,
          )
          .run(workspaceId, rows).changes,
    );
  for (const { table, where } of RECORDS)
    await gradually(db, (tx, rows) => {
      const some = tx
        .select({ id: table.id })
        .from(table)
        .where(and(eq(table.workspaceId, workspaceId), where))
        .limit(rows);
      return tx.delete(table).where(inArray(table.id, some)).returning({ id: table.id }).all().length;
    });
  await gradually(db, (tx, rows) => {
    const keys = tx
      .select({ id: apiKeys.id })
      .from(apiKeys)
      .where(and(eq(apiKeys.workspaceId, workspaceId), isLaterKey))
      .limit(rows)
      .all()
      .map(({ id }) => id);
    tx.delete(apiKeySpending).where(inArray(apiKeySpending.keyId, keys)).run();
    tx.delete(apiKeys).where(inArray(apiKeys.id, keys)).run();
    return keys.length;
  });
}

function removeRow(tx: Tx, id: string) {
  tx.delete(creditAccounts).where(eq(creditAccounts.workspaceId, id)).run();
  tx.delete(storageUsage).where(eq(storageUsage.workspaceId, id)).run();
  tx.delete(workspaces)
    .where(and(eq(workspaces.id, id), isDeleted))
    .run();
}
