import { and, asc, desc, eq, gt, inArray, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { AppError } from "../../../lib/errors.ts";
import { write } from "../../../platform/db/db.ts";
import { enqueue } from "./delivery/enqueue.ts";
import { TEST } from "./kinds.ts";
import { type Delivery, presentDelivery } from "./schema.ts";
import * as endpoints from "./service.ts";
import { type AttemptRow, type DeliveryRow, webhookAttempts, webhookDeliveries } from "./table.ts";

const LISTED = 50;
const LISTED_ATTEMPTS = 50; // resends are unlimited

export function list(ctx: Ctx, workspaceId: string, endpointId: string) {
  endpoints.mustGet(ctx, workspaceId, endpointId);
  const { createdAt, id } = webhookDeliveries;
  const rows = ctx.db
    .select()
    .from(webhookDeliveries)
    .where(eq(webhookDeliveries.endpointId, endpointId))
    .orderBy(desc(createdAt), desc(id))
    .limit(LISTED + 1)
    .all();
  return { object: "list" as const, data: showAll(ctx, rows.slice(0, LISTED)), has_more: rows.length > LISTED };
}

function showAll(ctx: Ctx, rows: readonly DeliveryRow[]): Delivery[] {
  const { deliveryId, number } = webhookAttempts;
  const newest = sql`(SELECT max(a.number) - ${LISTED_ATTEMPTS} FROM webhook_attempts a WHERE a.delivery_id = ${deliveryId})`;
  const ids = rows.map(({ id }) => id);
  const attemptRows = ctx.db
    .select()
    .from(webhookAttempts)
    .where(and(inArray(deliveryId, ids), gt(number, newest)))
    .orderBy(asc(deliveryId), asc(number))
    .all();
  const attempts = new Map<string, AttemptRow[]>();
  for (const each of attemptRows) attempts.set(each.deliveryId, [...(attempts.get(each.deliveryId) ?? []), each]);
  return rows.map((row) => presentDelivery(row, attempts.get(row.id) ?? []));
}

export const show = (ctx: Ctx, row: DeliveryRow): Delivery => showAll(ctx, [row])[0] as Delivery;

/** Sends an event to this endpoint alone, whatever types it subscribes to. It is retried like any other. */
export function sendTest(ctx: Ctx, workspaceId: string, endpointId: string): DeliveryRow {
  const now = ctx.clock.now();
  const row = write(ctx.db, (tx) => {
    const endpoint = endpoints.mustBeEnabled(ctx, workspaceId, endpointId);
    const data = { object: "webhook_endpoint" as const, id: endpointId };
    const event = { id: emit(tx, TEST, { workspaceId, now }, data), workspaceId, type: TEST, createdAt: now, data };
    return enqueue(tx, event, { endpoint, trigger: "test", now });
  });
  ctx.wake("webhooks.deliver");
  return row;
}

/** Requests one attempt soon, whatever the status. A pending delivery keeps its schedule. */
export function resend(ctx: Ctx, workspaceId: string, endpointId: string, deliveryId: string): DeliveryRow {
  const row = write(ctx.db, (tx) => {
    endpoints.mustGet(ctx, workspaceId, endpointId);
    const isDelivery = and(eq(webhookDeliveries.id, deliveryId), eq(webhookDeliveries.endpointId, endpointId));
    if (!tx.select({ id: webhookDeliveries.id }).from(webhookDeliveries).where(isDelivery).get())
      throw new AppError(
        "resource_not_found",
        `The endpoint ${endpointId} has no delivery ${deliveryId.slice(0, 80)}`,
        {
          param: "delivery",
        },
      );
    endpoints.mustBeEnabled(ctx, workspaceId, endpointId);
    return tx.update(webhookDeliveries).set(resendPatch(ctx)).where(isDelivery).returning().get() as DeliveryRow;
  });
  ctx.wake("webhooks.deliver");
  return row;
}

/** Keeps the earliest pending resend time, or now if the clock was set back. */
export const resendPatch = ({ clock }: Ctx) => ({
  resendAt: sql<number>`min(coalesce(${webhookDeliveries.resendAt}, ${clock.now()}), ${clock.now()})`,
  updatedAt: clock.now(),
});
