import { eq } from "drizzle-orm";
import { advance, transition } from "../../../events/lifecycle.ts";
import { afterCommit, type Tx } from "../../../platform/db/db.ts";
import { preparedInsert } from "../../../platform/db/row.ts";
import { counter } from "../../../platform/metrics.ts";
import { deliveryMachine, machine } from "../machine.ts";
import { webhookAttempts, webhookDeliveries, webhookEndpoints } from "../table.ts";
import type { Tried } from "./attempt.ts";
import { cancelWaiting } from "./cancel.ts";
import type { Facts } from "./facts.ts";
import { type DeliveryStatus, type Endpoint, judge, type Trigger } from "./verdict.ts";

const STEPS = {
  pending: "retry",
  succeeded: "succeed",
  failed: "fail",
  exhausted: "exhaust",
  cancelled: "cancel",
} as const satisfies Record<DeliveryStatus, keyof typeof deliveryMachine.steps>;

const insertAttempt = preparedInsert(webhookAttempts);
const attempts = counter("verk_webhook_attempts_total", "Attempts at deliveries, by what came back", ["result"]);

/** The class of the answer, or why there was none. */
const resultOf = ({ responseCode, errorCode }: Tried) =>
  responseCode === null ? (errorCode ?? "internal") : `${Math.floor(responseCode / 100)}xx`;

/** The end of an attempt: its row, the delivery and the endpoint in one commit. The facts are as of now. */
export function record(
  tx: Tx,
  { delivery, endpoint, endpointId, workspaceId }: Facts,
  trigger: Trigger,
  tried: Tried,
): void {
  const { attemptedAt, endedAt, outcome, ...told } = tried;
  const now = endedAt;
  const after = judge(delivery, endpoint, { trigger, endedAtMs: endedAt, outcome });
  const { attemptCount, scheduledCount, dueAtMs: dueAt } = after.delivery;
  const durationMs = Math.max(0, endedAt - attemptedAt);
  insertAttempt(tx, { deliveryId: delivery.id, number: attemptCount, attemptedAt, trigger, durationMs, ...told });
  afterCommit(tx, () => attempts.add(tx, workspaceId, [resultOf(tried)]));
  const patch = {
    attemptCount,
    scheduledCount,
    dueAt,
    ...(trigger === "manual" || dueAt === null ? { resendAt: null } : {}),
    lastResponseCode: tried.responseCode,
    lastError:
      tried.errorMessage ?? (after.delivery.status === "succeeded" ? null : `It answered ${tried.responseCode}`),
  };
  const { status } = after.delivery;
  if (status !== delivery.status || status === "pending")
    advance(tx, deliveryMachine, STEPS[status], { id: delivery.id, now }, patch);
  else
    tx.update(webhookDeliveries)
      .set({ ...patch, updatedAt: now })
      .where(eq(webhookDeliveries.id, delivery.id))
      .run();
  recordEndpoint(tx, endpointId, endpoint, { after: after.endpoint, gone: tried.responseCode === 410, now });
  if (after.cancelOthers) cancelWaiting(tx, endpointId, now);
}

type Change = { after: Endpoint; gone: boolean; now: number };

function recordEndpoint(tx: Tx, id: string, before: Endpoint, { after, gone, now }: Change) {
  const { consecutiveFailures } = after;
  if (after.status === "disabled" && before.status === "enabled") {
    const disabledReason = gone ? "gone" : "consecutive_failures";
    const patch = { consecutiveFailures, disabledAt: after.disabledAtMs, disabledReason } as const;
    transition(tx, machine, "disable", { id, now }, patch);
  } else if (consecutiveFailures !== before.consecutiveFailures)
    tx.update(webhookEndpoints).set({ consecutiveFailures }).where(eq(webhookEndpoints.id, id)).run();
}
