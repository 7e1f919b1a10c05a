/**
 * The delivery loop. The rows are the queue: a delivery is due until its result is written. Only this process knows what
 * is under way, so a crash at any line costs at most a repetition, which receivers drop by its id. A tick starts what
 * may start and does not wait for it: a receiver that hangs holds permits of its own and nothing else.
 */
import type { Ctx } from "../../../../context.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { shareSnapshot } from "../../../../platform/db/snapshot.ts";
import * as endpoints from "../service.ts";
import { attempt } from "./attempt.ts";
import { type DueRead, expireOverdue, readDue, redate, scanEndpoints } from "./due.ts";
import { type AttemptFacts, type DeliveryFacts, readAttempt } from "./facts.ts";
import { chooseStarts, type Pace } from "./fairness.ts";
import { settleClosed } from "./held.ts";
import type { DueDelivery } from "./live.ts";
import { record, recordBody } from "./record.ts";
import { dueAction, isSuccess, type Trigger } from "./verdict.ts";

const PAUSE_MS = 30_000; // between attempts whose results cannot be written

export async function deliver(ctx: Ctx, signal: AbortSignal): Promise<void> {
  const state = ctx.state.webhooks;
  if (state.isPaused(ctx.clock)) return;
  if (state.takeSweep(ctx.clock)) await settleClosed(ctx);
  if (state.takeClockCheck(ctx.clock)) await redate(ctx);
  const begun = performance.now();
  shareSnapshot(ctx.db);
  const { queues, isPartial } = nextQueues(ctx);
  const { chosen, turn } = chooseStarts(queues, state.turn, state.limits);
  const costMs = performance.now() - begun;
  if (isPartial) ctx.wake("webhooks.deliver");
  if (chosen.length > 0) {
    state.turn = turn;
    await state.flushGuard.flush(ctx.db);
    if (signal.aborted) return;
    shareSnapshot(ctx.db);
    for (const delivery of chosen) start(ctx, delivery);
  }
  await rest(costMs, signal);
}

/** `isPartial`: there is more to scan or to expire. */
function nextQueues(ctx: Ctx): Pick<DueRead, "queues"> & { isPartial: boolean } {
  const { db } = ctx;
  const state = ctx.state.webhooks;
  const now = ctx.clock.now();
  const { endpointIds, last } = scanEndpoints(db, state.scannedTo, now);
  state.scannedTo = last;
  const active = state.activeEndpoints(endpointIds, (id) => endpoints.find(ctx, id), now);
  const read = () => readDue(db, active, state.turn, state.limits, now);
  let { queues, overdue } = read();
  if (overdue.length > 0) {
    expireOverdue(db, overdue, now);
    ({ queues, overdue } = read());
  }
  return { queues, isPartial: last !== "" || overdue.length > 0 };
}

const CHEAP_MS = 2;

/** A tick over very many endpoints is followed by a rest of four times its length: requests get their turn. */
export async function rest(costMs: number, signal: AbortSignal): Promise<void> {
  if (costMs > CHEAP_MS) await systemClock.sleep(4 * costMs, signal);
}

/** The row is read again: it may have changed since it was read ahead, or while the flush ran. */
function start(ctx: Ctx, delivery: DueDelivery) {
  const now = ctx.clock.now();
  const { webhooks } = ctx.state;
  webhooks.take(delivery);
  const facts = readAttempt(ctx.db, delivery.id);
  const trigger = facts && triggerOf(facts, now);
  const wake = () => ctx.wake("webhooks.deliver");
  if (!trigger) {
    webhooks.forgetAhead(delivery.endpointId);
    return wake(); // others may start in its place
  }
  webhooks.run(delivery, now, (signal, pace) => attemptOnce(ctx, facts, { trigger, pace, signal }), wake);
}

function triggerOf({ delivery, endpoint, trigger, resendAt }: DeliveryFacts, now: number): Trigger | undefined {
  if (resendAt !== null && resendAt <= now) return endpoint.status === "enabled" ? "manual" : undefined;
  return dueAction(delivery, endpoint, now) === "attempt" ? trigger : undefined;
}

type How = { trigger: Trigger; pace: Pace; signal: AbortSignal };

/** Makes one attempt and writes its result. Undefined: there is no result. */
async function attemptOnce(ctx: Ctx, facts: AttemptFacts, { trigger, pace, signal }: How) {
  const { delivery, endpointId, eventId, url, secrets, scheme, body } = facts;
  try {
    const endpoint = { id: endpointId, url, secrets, scheme };
    const warm = pace.speed === "quick";
    const result = await attempt(ctx, { endpoint, eventId, body: body ?? undefined, warm }, signal);
    await record(ctx, { deliveryId: delivery.id, trigger, result });
    const { responseCode, attemptedAt, endedAt, lateBody } = result;
    if (lateBody) void recordBody(ctx, delivery.id, attemptedAt, lateBody);
    const succeeded = responseCode !== null && isSuccess(responseCode);
    return { succeeded, durationMs: endedAt - attemptedAt };
  } catch (error) {
    if (signal.aborted) return undefined; // it leaves no trace, and is made again
    ctx.state.webhooks.pause(ctx.clock, PAUSE_MS);
    ctx.log.error("the result of a webhook attempt could not be written", { delivery: delivery.id, error });
    return undefined;
  }
}
