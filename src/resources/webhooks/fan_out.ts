import { and, eq, gt, lt, or, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { consume } from "../../events/consume.ts";
import { onEvents } from "../../events/emit.ts";
import type { EventRow } from "../../events/table.ts";
import { prepared, type Tx } from "../../platform/db.ts";
import { DELIVER_LOOP, enqueueAll } from "./enqueue.ts";
import { isFannedOut, wants } from "./kinds.ts";
import { webhookEndpoints } from "./table.ts";

/** Its place in the outbox, and the loop. */
export const FAN_OUT_LOOP = "webhooks.fan_out";
const BATCH = 200;
const COMMIT_ROWS = 1_000; // a commit takes no further event: others get their turn

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
        let [taken, rows] = [0, 0];
        for (; taken < batch.length && rows < COMMIT_ROWS; taken++) rows += deliverTo(tx, batch[taken]!, now);
        made += rows;
        return taken;
      },
      BATCH,
    );
  while (!signal?.aborted && (await take()) > 0) if (made > 0) ctx.wake(DELIVER_LOOP);
}

/** One that has been disabled or deleted since the event was to get it: that it will not is written down. */
const thereThen = prepared((db) => {
  const { workspaceId, status, afterSeq, updatedAt, eventTypes, id } = webhookEndpoints;
  const at = sql.placeholder("createdAt");
  const there = and(eq(workspaceId, sql.placeholder("workspaceId")), lt(afterSeq, sql.placeholder("seq")));
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
