import { and, eq, inArray, ne, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import type { Tx } from "../../../platform/db/db.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { deliveryMachine } from "../machine.ts";
import { nextAt, webhookDeliveries, webhookEndpoints } from "../table.ts";
import { CANCELLED } from "./enqueue.ts";

const FIRST_ROWS = 1_000; // in the commit that disables; the loop does the rest

/**
 * Cancels what waits for an endpoint that is disabled or deleted. An attempt under way may still succeed. Returns how
 * many were cancelled, at most `rows`.
 */
export function cancelWaiting(tx: Tx, endpointId: string, now: number, rows = FIRST_ROWS): number {
  const waiting = tx
    .select({ id: webhookDeliveries.id, status: webhookDeliveries.status })
    .from(webhookDeliveries)
    .where(and(eq(webhookDeliveries.endpointId, endpointId), sql`${nextAt} IS NOT NULL`))
    .limit(rows)
    .all();
  const none = { resendAt: null, updatedAt: now };
  const lastError = CANCELLED;
  for (const { id, status } of waiting)
    if (status === "pending")
      transition(tx, deliveryMachine, "cancel", { id, now }, { ...none, dueAt: null, lastError });
  const settled = waiting.filter(({ status }) => status !== "pending").map(({ id }) => id);
  if (settled.length > 0) tx.update(webhookDeliveries).set(none).where(inArray(webhookDeliveries.id, settled)).run();
  return waiting.length;
}

/** Cancels what was too much for one commit. */
export async function cancelRest(ctx: Ctx): Promise<void> {
  const closed = ctx.db
    .select({ id: webhookEndpoints.id })
    .from(webhookEndpoints)
    .where(
      and(
        ne(webhookEndpoints.status, "enabled"),
        sql`EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.endpoint_id = ${webhookEndpoints.id} AND d.next_at IS NOT NULL)`,
      ),
    )
    .all();
  for (const { id } of closed)
    await gradually(ctx.db, (tx, rows) => (isEnabled(tx, id) ? 0 : cancelWaiting(tx, id, ctx.clock.now(), rows)));
}

const isEnabled = (tx: Tx, id: string) =>
  tx.select({ status: webhookEndpoints.status }).from(webhookEndpoints).where(eq(webhookEndpoints.id, id)).get()
    ?.status === "enabled";
