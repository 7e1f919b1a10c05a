/**
 * The delivery loop. A row is the queue: it is due until its end is written down, and what is under way only this
 * process knows, so a crash at any line costs at most a repetition, which receivers drop by its id. A tick starts what
 * may start and does not wait for it: a receiver that hangs holds one place of its own and nothing else.
 */
import type { Ctx } from "../../context.ts";
import { chooseStarts, paceAfter } from "../../lib/webhooks/fairness.ts";
import { dueAction, type Trigger } from "../../lib/webhooks/verdict.ts";
import { systemClock } from "../../platform/clock.ts";
import { durable, isDirty, openCommit, write } from "../../platform/db.ts";
import { type Tried, tryOnce } from "./attempt.ts";
import { cancelRest } from "./cancel.ts";
import { bodyOf, deliveryById, endpointById, laneOf, readLanes } from "./due.ts";
import { DELIVER_LOOP } from "./enqueue.ts";
import { type Live, liveOf } from "./live.ts";
import { deliveryOf, endpointOf, record } from "./record.ts";
import type { DeliveryRow, EndpointRow } from "./table.ts";

const SWEEP_MS = 1_000;
const CHEAP_MS = 2; // a look that costs more is followed by a rest of four times its length
const TROUBLE_MS = 30_000; // between attempts whose ends cannot be written down

export async function deliver(ctx: Ctx, signal: AbortSignal): Promise<void> {
  const live = liveOf(ctx.db);
  for (let ms = restOf(live); ms > 0 && !signal.aborted; ms = restOf(live)) await systemClock.sleep(ms, signal);
  if (signal.aborted) return;
  if (Math.abs(ctx.clock.now() - live.sweptAt) >= SWEEP_MS) {
    live.sweptAt = ctx.clock.now();
    await cancelRest(ctx);
  }
  const begun = performance.now();
  const { lanes, isCut } = readLanes(ctx.db, live, ctx.clock.now());
  const { chosen, turn } = chooseStarts(lanes, live.turn, live.limits);
  const costMs = performance.now() - begun;
  if (costMs > CHEAP_MS) live.restUntil = Math.max(live.restUntil, begun + 5 * costMs);
  if (isCut) ctx.wake(DELIVER_LOOP);
  if (chosen.length === 0) return;
  live.turn = turn;
  if (isDirty(ctx.db)) await durable(ctx.db); // nothing is sent that a power cut could take back
  if (!signal.aborted) for (const id of chosen) start(ctx, live, id);
}

const restOf = ({ restUntil }: Live) => restUntil - performance.now();

/** Both rows are read again: much may have happened since they were found. */
function start(ctx: Ctx, live: Live, id: string) {
  const now = ctx.clock.now();
  const delivery = deliveryById(ctx.db, { id });
  const endpoint = delivery && endpointById(ctx.db, { id: delivery.endpointId });
  const trigger = endpoint && triggerOf(delivery, endpoint, now);
  if (!trigger) return;
  const lane = laneOf(ctx.db, live, endpoint.id);
  lane.running.set(id, now);
  const flight = fly(ctx, live, { delivery, endpoint, trigger }).finally(() => {
    lane.running.delete(id);
    live.flights.delete(flight);
    ctx.wake(DELIVER_LOOP);
  });
  live.flights.add(flight);
}

function triggerOf(delivery: DeliveryRow, endpoint: EndpointRow, now: number): Trigger | undefined {
  if (delivery.resendAt !== null && delivery.resendAt <= now)
    return endpoint.status === "enabled" ? "manual" : undefined;
  return dueAction(deliveryOf(delivery), endpointOf(endpoint), now) === "attempt" ? delivery.trigger : undefined;
}

type Flight = { delivery: DeliveryRow; endpoint: EndpointRow; trigger: Trigger };

async function fly(ctx: Ctx, live: Live, { delivery, endpoint, trigger }: Flight): Promise<void> {
  const { signal } = live.closing;
  const lane = laneOf(ctx.db, live, endpoint.id);
  try {
    const body = bodyOf(ctx.db, { eventId: delivery.eventId })?.body as Uint8Array<ArrayBuffer> | undefined;
    const warm = lane.pace.standing === "quick";
    const tried = await tryOnce(ctx, { endpoint, eventId: delivery.eventId, body, warm }, signal);
    end(ctx, delivery.id, trigger, tried);
    await openCommit(ctx.db); // one that is lost is trouble too
    const succeeded = tried.responseCode !== null && tried.responseCode >= 200 && tried.responseCode < 300;
    const durationMs = tried.endedAt - tried.attemptedAt;
    lane.pace = paceAfter(lane.pace, { succeeded, durationMs }, live.limits);
  } catch (error) {
    if (signal.aborted) return; // it leaves no trace, and is made again
    live.restUntil = performance.now() + TROUBLE_MS;
    ctx.log.error("the end of a webhook could not be written down", { delivery: delivery.id, error });
  }
}

function end(ctx: Ctx, id: string, trigger: Trigger, tried: Tried) {
  write(ctx.db, (tx) => {
    const delivery = deliveryById(tx, { id });
    const endpoint = delivery && endpointById(tx, { id: delivery.endpointId });
    if (endpoint) record(tx, { delivery, endpoint }, trigger, tried); // else: its workspace is gone
  });
}
