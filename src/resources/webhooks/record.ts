import { eq } from "drizzle-orm";
import { transition } from "../../events/lifecycle.ts";
import { type Delivery, type DeliveryStatus, type Endpoint, judge, type Trigger } from "../../lib/webhooks/verdict.ts";
import { afterCommit, type Tx } from "../../platform/db.ts";
import { counter } from "../../platform/metrics.ts";
import { preparedInsert } from "../../platform/row.ts";
import type { Tried } from "./attempt.ts";
import { cancelWaiting } from "./cancel.ts";
import { deliveryMachine, machine } from "./machine.ts";
import { type DeliveryRow, type EndpointRow, webhookAttempts, webhookDeliveries, webhookEndpoints } from "./table.ts";

export const deliveryOf = (row: DeliveryRow): Delivery => ({
  id: row.id,
  status: row.status,
  attemptCount: row.attemptCount,
  scheduledCount: row.scheduledCount,
  createdAtMs: row.eventCreatedAt,
  dueAtMs: row.dueAt,
});

export const endpointOf = (row: EndpointRow): Endpoint => ({
  status: row.status,
  consecutiveFailures: row.consecutiveFailures,
  disabledAtMs: row.disabledAt,
});

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

/** The end of an attempt: its row, the delivery and the endpoint in one commit. Both rows are as of now. */
export function record(
  tx: Tx,
  { delivery, endpoint }: { delivery: DeliveryRow; endpoint: EndpointRow },
  trigger: Trigger,
  tried: Tried,
): void {
  const { attemptedAt, endedAt, outcome, ...told } = tried;
  const now = endedAt;
  const attempt = { trigger, endedAtMs: endedAt, outcome };
  const after = judge(deliveryOf(delivery), endpointOf(endpoint), attempt);
  const { attemptCount, scheduledCount, dueAtMs: dueAt } = after.delivery;
  const durationMs = Math.max(0, endedAt - attemptedAt);
  insertAttempt(tx, { deliveryId: delivery.id, number: attemptCount, attemptedAt, trigger, durationMs, ...told });
  afterCommit(tx, () => attempts.add(tx, delivery.workspaceId, [resultOf(tried)]));
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
    transition(tx, deliveryMachine, STEPS[status], { id: delivery.id, now }, patch);
  else
    tx.update(webhookDeliveries)
      .set({ ...patch, updatedAt: now })
      .where(eq(webhookDeliveries.id, delivery.id))
      .run();
  recordEndpoint(tx, endpoint, after.endpoint, { gone: tried.responseCode === 410, now });
  if (after.cancelOthers) cancelWaiting(tx, endpoint.id, now);
}

function recordEndpoint(tx: Tx, before: EndpointRow, after: Endpoint, { gone, now }: { gone: boolean; now: number }) {
  const { consecutiveFailures } = after;
  if (after.status === "disabled" && before.status === "enabled") {
    const disabledReason = gone ? "gone" : "consecutive_failures";
    const patch = { consecutiveFailures, disabledAt: after.disabledAtMs, disabledReason } as const;
    transition(tx, machine, "disable", { id: before.id, now }, patch);
  } else if (consecutiveFailures !== before.consecutiveFailures)
    tx.update(webhookEndpoints).set({ consecutiveFailures }).where(eq(webhookEndpoints.id, before.id)).run();
}
