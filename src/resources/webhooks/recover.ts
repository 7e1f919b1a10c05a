/**
 * Sends again what did not arrive: deliveries that ended otherwise, and events that found the endpoint disabled and so
 * became no delivery. In small commits, oldest first: there may be very many.
 */
import { and, asc, eq, gt, gte, inArray, lte, notExists, or, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { eventCursors, events } from "../../events/table.ts";
import { expiryOf } from "../../lib/webhooks/schedule.ts";
import type { Tx } from "../../platform/db.ts";
import { gradually } from "../../platform/gradually.ts";
import { asked } from "./deliveries.ts";
import { DELIVER_LOOP, enqueue } from "./enqueue.ts";
import { FAN_OUT_LOOP } from "./fan_out.ts";
import { isFannedOut, PUBLISHED, wants } from "./kinds.ts";
import * as endpoints from "./service.ts";
import { type DeliveryRow, type EndpointRow, webhookDeliveries } from "./table.ts";

const UNDELIVERED = ["failed", "exhausted", "cancelled"] as const;

/** How many are sent again. */
export async function recover(ctx: Ctx, workspaceId: string, endpointId: string, sinceMs: number): Promise<number> {
  const endpoint = endpoints.mustBeEnabled(ctx, workspaceId, endpointId);
  const from = Math.max(sinceMs, endpoint.createdAt);
  const ended = await recoverEnded(ctx, endpoint, from);
  const missed = await recoverMissed(ctx, endpoint, from);
  ctx.wake(DELIVER_LOOP);
  return ended + missed;
}

type Place = Pick<DeliveryRow, "createdAt" | "id">;

function recoverEnded(ctx: Ctx, { id: endpointId }: EndpointRow, sinceMs: number): Promise<number> {
  const { id, createdAt, eventCreatedAt, status } = webhookDeliveries;
  let last: Place = { createdAt: sinceMs, id: "" }; // a row is no older than its event
  return gradually(ctx.db, (tx, rows) => {
    const found = tx
      .select({ id, createdAt })
      .from(webhookDeliveries)
      .where(
        and(
          eq(webhookDeliveries.endpointId, endpointId),
          gte(createdAt, last.createdAt),
          or(gt(createdAt, last.createdAt), gt(id, last.id)),
          gte(eventCreatedAt, sinceMs),
          inArray(status, [...UNDELIVERED]),
        ),
      )
      .orderBy(asc(createdAt), asc(id))
      .limit(rows)
      .all();
    again(
      ctx,
      tx,
      found.map((each) => each.id),
    );
    last = found.at(-1) ?? last;
    return found.length;
  });
}

function again(ctx: Ctx, tx: Tx, ids: readonly string[]) {
  if (ids.length > 0)
    tx.update(webhookDeliveries)
      .set(asked(ctx))
      .where(inArray(webhookDeliveries.id, [...ids]))
      .run();
}

/** One whose window is over gets a single attempt; the others are retried like any other. */
function recoverMissed(ctx: Ctx, endpoint: EndpointRow, sinceMs: number): Promise<number> {
  const wanted = PUBLISHED.filter((type) => isFannedOut(type) && wants(endpoint.eventTypes, type));
  let lastSeq = 0;
  return gradually(ctx.db, (tx, rows) => {
    const theirs = tx
      .select({ id: webhookDeliveries.id })
      .from(webhookDeliveries)
      .where(and(sql`${webhookDeliveries.eventId} = ${events.id}`, eq(webhookDeliveries.endpointId, endpoint.id)));
    const found = tx
      .select()
      .from(events)
      .where(
        and(
          eq(events.workspaceId, endpoint.workspaceId),
          gt(events.seq, lastSeq),
          lte(events.seq, fannedOutUpTo(tx)), // the others are still to come
          gte(events.createdAt, sinceMs),
          inArray(events.type, wanted),
          notExists(theirs),
        ),
      )
      .orderBy(asc(events.seq))
      .limit(rows)
      .all();
    const now = ctx.clock.now();
    const made = found.map((event) => {
      const status = expiryOf(event.createdAt) <= now ? ("disabled" as const) : ("enabled" as const);
      return enqueue(tx, event, { endpoint: { id: endpoint.id, status }, trigger: "scheduled", now });
    });
    again(
      ctx,
      tx,
      made.filter((row) => row.dueAt === null).map((row) => row.id),
    );
    lastSeq = found.at(-1)?.seq ?? lastSeq;
    return found.length;
  });
}

const fannedOutUpTo = (tx: Tx): number =>
  tx.select({ seq: eventCursors.seq }).from(eventCursors).where(eq(eventCursors.consumer, FAN_OUT_LOOP)).get()?.seq ??
  0;
