import { and, asc, desc, eq, gt, inArray, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { behind } from "../../../http/answer/cursor.ts";
import { AppError } from "../../../lib/errors.ts";
import { deliveryHeaders } from "../../../lib/webhooks/signature.ts";
import { write } from "../../../platform/db/db.ts";
import { enqueue } from "./delivery/enqueue.ts";
import { TEST } from "./kinds.ts";
import { signingSecrets } from "./rotation.ts";
import { type Delivery, type DeliveryQuery, type DeliveryWithRequest, presentDelivery } from "./schema.ts";
import { openSecrets } from "./sealing.ts";
import * as endpoints from "./service.ts";
import { type AttemptRow, type DeliveryRow, webhookAttempts, webhookBodies, webhookDeliveries } from "./table.ts";

const LISTED_ATTEMPTS = 50; // resends are unlimited
const MOST_SCANNED = 5_000; // a few milliseconds

/** Newest first. A page ends early after `MOST_SCANNED` rows that the filter does not want; `next_after` goes on. */
export function list(ctx: Ctx, workspaceId: string, endpointId: string, query: DeliveryQuery) {
  endpoints.mustGet(ctx, workspaceId, endpointId);
  const { createdAt, id, status, eventType } = webhookDeliveries;
  const { after, limit } = query;
  const isFiltered = query.status !== undefined || query.event_type !== undefined;
  const most = isFiltered ? MOST_SCANNED : limit + 1;
  const scanned = ctx.db
    .select({ id, status, eventType })
    .from(webhookDeliveries)
    .where(
      and(
        eq(webhookDeliveries.endpointId, endpointId),
        after === undefined ? undefined : behind(ctx.db, webhookDeliveries, after),
      ),
    )
    .orderBy(desc(createdAt), desc(id))
    .limit(most)
    .all();
  const found = scanned.filter((row) => isWanted(row, query)).map((row) => row.id);
  const ids = found.slice(0, limit);
  const next = found.length > limit ? ids.at(-1) : scanned.length === most ? scanned.at(-1)?.id : undefined;
  const rows = ctx.db.select().from(webhookDeliveries).where(inArray(id, ids)).all();
  rows.sort((a, b) => ids.indexOf(a.id) - ids.indexOf(b.id));
  return { object: "list" as const, data: showAll(ctx, rows), has_more: next !== undefined, next_after: next ?? null };
}

const isWanted = (
  { status, eventType }: Pick<DeliveryRow, "status" | "eventType">,
  { status: wanted, event_type: type }: DeliveryQuery,
) => (wanted === undefined || status === wanted) && (type === undefined || eventType === type);

function mustGetDelivery(ctx: Pick<Ctx, "db">, endpointId: string, id: string): DeliveryRow {
  const isDelivery = and(eq(webhookDeliveries.id, id), eq(webhookDeliveries.endpointId, endpointId));
  const row = ctx.db.select().from(webhookDeliveries).where(isDelivery).get();
  if (row) return row;
  throw new AppError("resource_not_found", `The endpoint ${endpointId} has no delivery ${id.slice(0, 80)}`, {
    param: "delivery",
  });
}

/** The delivery with its request as the newest attempt sent it. `isSigned`: the caller may see the signature. */
export function showWithRequest(
  ctx: Ctx,
  workspaceId: string,
  { endpointId, deliveryId, isSigned }: { endpointId: string; deliveryId: string; isSigned: boolean },
): DeliveryWithRequest {
  const endpoint = endpoints.mustGet(ctx, workspaceId, endpointId);
  const delivery = show(ctx, mustGetDelivery(ctx, endpointId, deliveryId));
  const kept = ctx.db.select().from(webhookBodies).where(eq(webhookBodies.eventId, delivery.event_id)).get();
  const atMs = Date.parse(delivery.attempts.at(-1)?.attempted_at ?? delivery.created_at);
  const body = new Uint8Array(kept?.body ?? []);
  const message = { id: delivery.event_id, timestampSeconds: Math.floor(atMs / 1000), body };
  const headers = deliveryHeaders(message, signingSecrets(openSecrets(ctx, endpoint), atMs));
  const request = {
    url: endpoint.url,
    headers: { ...headers, ...(isSigned && kept ? {} : { "webhook-signature": "v1,****" }) },
    body: kept ? new TextDecoder().decode(body) : null,
  };
  return { ...delivery, request };
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
    mustGetDelivery(ctx, endpointId, deliveryId);
    endpoints.mustBeEnabled(ctx, workspaceId, endpointId);
    const isDelivery = eq(webhookDeliveries.id, deliveryId);
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
