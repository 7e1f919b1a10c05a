/**
 * The delivery loop. A row is the queue: it is due until its end is written down, and what is under way only this
 * process knows, so a crash at any line costs at most a repetition, which receivers drop by its id. A tick starts what
 * may start and does not wait for it: a receiver that hangs holds one place of its own and nothing else.
 */
import type { Ctx } from "../../../context.ts";
import { systemClock } from "../../../platform/clock.ts";
import { type Db, durable, generationOf, isDirty } from "../../../platform/db/db.ts";
import { shareSnapshot } from "../../../platform/db/snapshot.ts";
import { tryOnce } from "./attempt.ts";
import { cancelRest } from "./cancel.ts";
import { laneOf, readLanes } from "./due.ts";
import { type Facts, parcelOf, type Sealed } from "./facts.ts";
import { chooseStarts, paceAfter } from "./fairness.ts";
import { land } from "./land.ts";
import { type Lane, type Live, liveOf, type Next } from "./live.ts";
import { dueAction, type Trigger } from "./verdict.ts";

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
  shareSnapshot(ctx.db);
  const look = readLanes(ctx.db, live, ctx.clock.now());
  const { chosen, turn } = chooseStarts(look.lanes, live.turn, live.limits);
  const costMs = performance.now() - begun;
  if (costMs > CHEAP_MS) live.restUntil = Math.max(live.restUntil, begun + 5 * costMs);
  if (look.isCut) ctx.wake("webhooks.deliver");
  if (chosen.length === 0) return;
  live.turn = turn;
  await settle(ctx.db, live);
  if (signal.aborted) return;
  shareSnapshot(ctx.db);
  for (const next of chosen) start(ctx, live, next);
}

/** Nothing is sent that a power cut could take back. The ends of attempts need not be waited for: they are made again. */
async function settle(db: Db, live: Live): Promise<void> {
  const written = generationOf(db) - live.landed;
  if (written === live.flushed) return;
  if (isDirty(db)) await durable(db);
  live.flushed = written;
}

const restOf = ({ restUntil }: Live) => restUntil - performance.now();

/** The rows are read again: much may have happened since they were found. */
function start(ctx: Ctx, live: Live, { id, endpointId }: Next) {
  const now = ctx.clock.now();
  const lane = laneOf(ctx.db, live, endpointId);
  const place = lane.ahead.findIndex((next) => next.id === id);
  if (place >= 0) lane.ahead.splice(place, 1);
  const parcel = parcelOf(ctx.db, id);
  const trigger = parcel && triggerOf(parcel, now);
  if (!trigger) {
    lane.ahead = []; // so much has changed since that they are read again
    if (lane.readIn !== live.looks) ctx.wake("webhooks.deliver");
    return;
  }
  lane.running.set(id, now);
  const flight = fly(ctx, live, { parcel, lane, trigger }).finally(() => {
    lane.running.delete(id);
    live.flights.delete(flight);
    ctx.wake("webhooks.deliver");
  });
  live.flights.add(flight);
}

function triggerOf({ delivery, endpoint, trigger, resendAt }: Facts, now: number): Trigger | undefined {
  if (resendAt !== null && resendAt <= now) return endpoint.status === "enabled" ? "manual" : undefined;
  return dueAction(delivery, endpoint, now) === "attempt" ? trigger : undefined;
}

type Flight = { parcel: Facts & Sealed; lane: Lane; trigger: Trigger };

async function fly(ctx: Ctx, live: Live, { parcel, lane, trigger }: Flight): Promise<void> {
  const { signal } = live.closing;
  const { delivery, endpointId, eventId, url, secrets, scheme } = parcel;
  try {
    const endpoint = { id: endpointId, url, secrets, scheme };
    const warm = lane.pace.standing === "quick";
    const tried = await tryOnce(ctx, { endpoint, eventId, body: parcel.body ?? undefined, warm }, signal);
    await land(ctx, { id: delivery.id, trigger, tried });
    const succeeded = tried.responseCode !== null && tried.responseCode >= 200 && tried.responseCode < 300;
    const durationMs = tried.endedAt - tried.attemptedAt;
    lane.pace = paceAfter(lane.pace, { succeeded, durationMs }, live.limits);
  } catch (error) {
    if (signal.aborted) return; // it leaves no trace, and is made again
    live.restUntil = performance.now() + TROUBLE_MS;
    ctx.log.error("the end of a webhook could not be written down", { delivery: delivery.id, error });
  }
}
