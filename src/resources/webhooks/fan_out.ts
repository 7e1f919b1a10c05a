import { and, eq, gt, lte, or } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { consume } from "../../events/consume.ts";
import { onEvents } from "../../events/emit.ts";
import type { EventRow } from "../../events/table.ts";
import type { Tx } from "../../platform/db.ts";
import { DELIVER_LOOP, enqueue } from "./enqueue.ts";
import { isFannedOut, wants } from "./kinds.ts";
import { webhookEndpoints } from "./table.ts";

/** Its place in the outbox, and the loop. */
export const FAN_OUT_LOOP = "webhooks.fan_out";
const BATCH = 200;

/**
 * Events become deliveries: one for each endpoint that was there before the event and wants it. The deliveries and the
 * place in the outbox move in one commit, so wherever the process dies no event is fanned out twice or not at all.
 */
export async function fanOut(ctx: Ctx, signal?: AbortSignal): Promise<void> {
  let made = 0;
  const take = () =>
    consume(
      ctx.db,
      FAN_OUT_LOOP,
      ctx.clock.now(),
      (tx, batch) => {
        const now = ctx.clock.now(); // not before: a delivery is no older than its event
        for (const event of batch) if (isFannedOut(event.type)) made += deliverTo(tx, event, now);
      },
      BATCH,
    );
  while (!signal?.aborted && (await take()) > 0) if (made > 0) ctx.wake(DELIVER_LOOP);
}

function deliverTo(tx: Tx, event: EventRow, now: number): number {
  const { workspaceId, status, createdAt, updatedAt, eventTypes, id, scheme } = webhookEndpoints;
  const mine = and(eq(workspaceId, event.workspaceId), eq(scheme, "standard"));
  const there = and(mine, lte(createdAt, event.createdAt));
  // One that has been disabled or deleted since was to get it: that it will not is written down.
  const open = or(eq(status, "enabled"), gt(updatedAt, event.createdAt));
  const endpoints = tx.select({ id, status, eventTypes }).from(webhookEndpoints).where(and(there, open)).all();
  const wanting = endpoints.filter((endpoint) => wants(endpoint.eventTypes, event.type));
  for (const endpoint of wanting) enqueue(tx, event, { endpoint, trigger: "scheduled", now });
  return wanting.length;
}

const BELL_MS = 50;

/** Events are fanned out as they happen: at once after a pause, together when there are many. */
export function begin(ctx: Ctx): void {
  let isRung = false;
  let lastAt = 0;
  const answer = () => {
    isRung = false;
    lastAt = performance.now();
    ctx.wake(FAN_OUT_LOOP);
  };
  onEvents(ctx.db, () => {
    if (isRung) return;
    isRung = true;
    setTimeout(answer, Math.max(0, lastAt + BELL_MS - performance.now()));
  });
}
