import { and, eq, gt, lt, or, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { consumer } from "../../../../events/consume.ts";
import { onEvents } from "../../../../events/emit.ts";
import { type EventRow, events } from "../../../../events/table.ts";
import { prepared, type Tx } from "../../../../platform/db/db.ts";
import { isFannedOut, wants } from "../kinds.ts";
import { webhookEndpoints } from "../table.ts";
import { enqueueAll } from "./enqueue.ts";

/** The name of the cursor in the outbox. It is stored, so it stays as it is. */
export const FAN_OUT_CONSUMER = "webhooks.fan_out";
const BATCH = 200;
const COMMIT_ROWS = 1_000; // then the commit takes no further event, so that other work gets its turn

/** Events of workspaces that have an endpoint. An endpoint that is created later gets none of these. */
const heard = sql`EXISTS (SELECT 1 FROM ${webhookEndpoints} WHERE ${webhookEndpoints.workspaceId} = ${events.workspaceId})`;
const take = consumer(FAN_OUT_CONSUMER, { limit: BATCH, wanted: heard });

/**
 * Turns events into deliveries: one for each endpoint that is older than the event and subscribes to its type. One
 * commit holds the deliveries and the cursor, so a crash neither loses an event nor fans it out twice.
 */
export async function fanOut(ctx: Ctx, signal?: AbortSignal): Promise<void> {
  let deliveryCount = 0;
  const next = () =>
    take(ctx.db, ctx.clock.now(), (tx, batch) => {
      const now = ctx.clock.now(); // read here, so that no delivery is older than its event
      let [taken, rows] = [0, 0];
      for (; taken < batch.length && rows < COMMIT_ROWS; taken++) rows += deliverTo(tx, batch[taken]!, now);
      deliveryCount += rows;
      return taken;
    });
  while (!signal?.aborted && (await next()) > 0) if (deliveryCount > 0) ctx.wake("webhooks.deliver");
}

/** Endpoints that were enabled at the time of the event. A delivery to one that was disabled since is held. */
const thereThen = prepared((db) => {
  const { workspaceId, status, afterSeq, updatedAt, eventTypes, id, scheme } = webhookEndpoints;
  const at = sql.placeholder("createdAt");
  const mine = and(eq(workspaceId, sql.placeholder("workspaceId")), eq(scheme, "standard"));
  const there = and(mine, lt(afterSeq, sql.placeholder("seq")));
  const open = or(eq(status, "enabled"), gt(updatedAt, at));
  return db.select({ id, status, eventTypes }).from(webhookEndpoints).where(and(there, open)).prepare();
});

function deliverTo(tx: Tx, event: EventRow, now: number): number {
  const { workspaceId, seq, createdAt, type } = event;
  if (!isFannedOut(type)) return 0;
  const wanting = thereThen(tx)
    .all({ workspaceId, seq, createdAt })
    .filter(({ eventTypes }) => wants(eventTypes, type));
  const tos = wanting.map((endpoint) => ({ endpoint, trigger: "scheduled" as const, now }));
  return enqueueAll(tx, event, tos).length;
}

const BELL_MS = 50;

/** Fans events out as they happen: at once after a pause, in groups when there are many. */
export function begin(ctx: Ctx): void {
  let isRung = false;
  let lastAt = 0;
  const answer = () => {
    isRung = false;
    lastAt = performance.now();
    ctx.wake("webhooks.fan_out");
  };
  onEvents(ctx.db, () => {
    if (isRung) return;
    isRung = true;
    setTimeout(answer, Math.max(0, lastAt + BELL_MS - performance.now()));
  });
}
