import { and, inArray, isNotNull, lt, ne, notExists, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { DAY_MS } from "../../../../lib/units.ts";
import type { Tx } from "../../../../platform/db/db.ts";
import { gradually } from "../../../../platform/db/gradually.ts";
import { nextAt, webhookBodies, webhookDeliveries, webhookEndpoints } from "../table.ts";

/** Deletes deliveries that settled long ago, bodies without deliveries, and deleted endpoints without deliveries. */
export async function prune(ctx: Ctx): Promise<void> {
  const before = ctx.clock.now() - ctx.config.webhooks.retention_days * DAY_MS;
  await gradually(ctx.db, (tx, rows) => pruneDeliveries(tx, before, rows));
  await gradually(ctx.db, pruneEndpoints);
  ctx.state.webhooks.forgetIdle();
}

function pruneDeliveries(tx: Tx, before: number, rows: number): number {
  const { id, eventId, createdAt, status } = webhookDeliveries;
  const old = tx
    .select({ id, eventId })
    .from(webhookDeliveries)
    .where(and(lt(createdAt, before), sql`${nextAt} IS NULL`, ne(status, "pending")))
    .limit(rows)
    .all();
  const ids = old.map((row) => row.id);
  const events = [...new Set(old.map((row) => row.eventId))];
  if (ids.length === 0) return 0;
  tx.delete(webhookDeliveries).where(inArray(id, ids)).run(); // and with them their attempts
  const others = tx.select({ id }).from(webhookDeliveries).where(sql`${eventId} = ${webhookBodies.eventId}`);
  tx.delete(webhookBodies)
    .where(and(inArray(webhookBodies.eventId, events), notExists(others)))
    .run();
  return ids.length;
}

function pruneEndpoints(tx: Tx, rows: number): number {
  const { id, deletedAt } = webhookEndpoints;
  const deliveries = tx
    .select({ id: webhookDeliveries.id })
    .from(webhookDeliveries)
    .where(sql`${webhookDeliveries.endpointId} = ${id}`);
  const unused = tx
    .select({ id })
    .from(webhookEndpoints)
    .where(and(isNotNull(deletedAt), notExists(deliveries)))
    .limit(rows);
  return tx.delete(webhookEndpoints).where(inArray(id, unused)).returning({ id }).all().length;
}
