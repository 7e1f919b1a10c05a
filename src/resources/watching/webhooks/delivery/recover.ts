/**
 * Sends again what did not arrive: deliveries that did not succeed, and events that became no delivery because the
 * endpoint was disabled. Oldest first, a page at a time, so that requests are served in between.
 */
import { and, asc, eq, gt, gte, inArray, lte, or, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { type EventRow, eventCursors, events } from "../../../../events/table.ts";
import { nextTurn } from "../../../../lib/turns.ts";
import { DAY_MS, HOUR_MS } from "../../../../lib/units.ts";
import { prepared, type Tx, write } from "../../../../platform/db/db.ts";
import { resendPatch } from "../deliveries.ts";
import { isFannedOut, wants } from "../kinds.ts";
import * as endpoints from "../service.ts";
import { type DeliveryRow, type EndpointRow, webhookDeliveries } from "../table.ts";
import { enqueue } from "./enqueue.ts";
import { FAN_OUT_CONSUMER } from "./fan_out.ts";

const PAGE_ROWS = 1_000; // a few milliseconds
const CLOCK_MS = HOUR_MS; // a clock that was set back by less does no harm

/** Returns how many deliveries are sent again. */
export async function recover(ctx: Ctx, workspaceId: string, endpointId: string, sinceMs: number): Promise<number> {
  const endpoint = endpoints.mustBeEnabled(ctx, workspaceId, endpointId);
  const ended = await recoverEnded(ctx, endpoint, sinceMs);
  // Older events may have arrived: their deliveries were pruned.
  const remembered = ctx.clock.now() - ctx.config.webhooks.retention_days * DAY_MS;
  const missed = await recoverMissed(ctx, endpoint, Math.max(sinceMs, remembered));
  ctx.wake("webhooks.deliver");
  return ended + missed;
}

type Page<T> = { last: T | undefined; sent: number; isFull: boolean };

/** `take` reads one page after `last` and handles it in one commit. */
async function pageByPage<T>(ctx: Ctx, first: T, take: (tx: Tx, last: T) => Page<T>): Promise<number> {
  let [last, total] = [first, 0];
  for (;;) {
    const page = write<Page<unknown>>(ctx.db, (tx) => take(tx, last)) as Page<T>; // write() cannot see through the type parameter
    total += page.sent;
    if (!page.isFull) return total;
    last = page.last ?? last;
    await nextTurn();
  }
}

type Position = Pick<DeliveryRow, "createdAt" | "id">;
const UNDELIVERED: readonly string[] = ["failed", "exhausted", "cancelled"] satisfies DeliveryRow["status"][];

function recoverEnded(ctx: Ctx, { id: endpointId }: EndpointRow, sinceMs: number): Promise<number> {
  const { id, createdAt, eventCreatedAt, status } = webhookDeliveries;
  const first: Position = { createdAt: sinceMs - CLOCK_MS, id: "" }; // a row is no older than its event
  return pageByPage(ctx, first, (tx, last) => {
    const rows = tx
      .select({ id, createdAt, eventCreatedAt, status })
      .from(webhookDeliveries)
      .where(
        and(
          eq(webhookDeliveries.endpointId, endpointId),
          gte(createdAt, last.createdAt),
          or(gt(createdAt, last.createdAt), gt(id, last.id)),
        ),
      )
      .orderBy(asc(createdAt), asc(id))
      .limit(PAGE_ROWS)
      .all();
    const lost = rows.filter((row) => row.eventCreatedAt >= sinceMs && UNDELIVERED.includes(row.status));
    requestResend(ctx, tx, lost);
    return { last: rows.at(-1), sent: lost.length, isFull: rows.length === PAGE_ROWS };
  });
}

function requestResend(ctx: Ctx, tx: Tx, rows: readonly Pick<DeliveryRow, "id">[]) {
  const ids = rows.map(({ id }) => id);
  if (ids.length > 0)
    tx.update(webhookDeliveries).set(resendPatch(ctx)).where(inArray(webhookDeliveries.id, ids)).run();
}

/** A delivery whose 72 hours are over gets one attempt. The others are retried as usual. */
function recoverMissed(ctx: Ctx, endpoint: EndpointRow, sinceMs: number): Promise<number> {
  return pageByPage(ctx, Math.max(endpoint.afterSeq, seqBefore(ctx, sinceMs - CLOCK_MS)), (tx, last) => {
    const eventRows = tx
      .select()
      .from(events)
      .where(
        and(
          eq(events.workspaceId, endpoint.workspaceId),
          gt(events.seq, last),
          lte(events.seq, fannedOutUpTo(tx)), // later events are still to be fanned out
        ),
      )
      .orderBy(asc(events.seq))
      .limit(PAGE_ROWS)
      .all();
    const missed = eventRows.filter((event) => event.createdAt >= sinceMs && isMissed(tx, endpoint, event));
    const now = ctx.clock.now();
    const deliveries = missed.map((event) => enqueue(tx, event, { endpoint, trigger: "scheduled", now }));
    requestResend(
      ctx,
      tx,
      deliveries.filter((row) => row.status !== "pending"),
    );
    return { last: eventRows.at(-1)?.seq, sent: deliveries.length, isFull: eventRows.length === PAGE_ROWS };
  });
}

const deliveryOf = prepared((db) =>
  db
    .select({ id: webhookDeliveries.id })
    .from(webhookDeliveries)
    .where(
      and(
        eq(webhookDeliveries.eventId, sql.placeholder("eventId")),
        eq(webhookDeliveries.endpointId, sql.placeholder("endpointId")),
      ),
    )
    .prepare(),
);

const isMissed = (tx: Tx, endpoint: EndpointRow, { id, type }: EventRow): boolean =>
  isFannedOut(type) &&
  wants(endpoint.eventTypes, type) &&
  deliveryOf(tx).get({ eventId: id, endpointId: endpoint.id }) === undefined;

const fannedOutUpTo = (tx: Tx): number =>
  tx.select({ seq: eventCursors.seq }).from(eventCursors).where(eq(eventCursors.consumer, FAN_OUT_CONSUMER)).get()
    ?.seq ?? 0;

/** Events are in order of time, but no index has the time: a binary search finds the `seq`. */
function seqBefore({ db }: Ctx, ms: number): number {
  const { seq, createdAt } = events;
  const at = (from: number) =>
    db.select({ seq, createdAt }).from(events).where(gte(seq, from)).orderBy(asc(seq)).limit(1).get();
  let [low, high] = [
    0,
    db
      .select({ seq: sql<number | null>`max(${seq})` })
      .from(events)
      .get()?.seq ?? 0,
  ];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const event = at(middle);
    if (event !== undefined && event.createdAt < ms) low = Math.max(middle + 1, event.seq);
    else high = middle;
  }
  return Math.max(0, low - 1);
}
