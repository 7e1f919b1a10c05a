import { dueTimeMs, expiryOf, jitterOf, nextDueMs } from "./retry_schedule.ts";

/**
 * Pure rules for a delivery and its endpoint. Both change in one commit, with the row of the attempt. An attempt that a
 * crash cut off leaves no trace and is made again under its number: delivery is at least once. An attempt that was
 * under way when its endpoint was disabled or deleted still ends by its own outcome. While an endpoint is disabled, its
 * pending deliveries are held: they have no due time until it is enabled again, and expire as usual.
 */
export const DELIVERY_STATUSES = ["pending", "succeeded", "failed", "exhausted", "cancelled"] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

export type Delivery = {
  id: string;
  status: DeliveryStatus;
  /** Attempts whose result is known, those by hand included. */
  attemptCount: number;
  /** Attempts of the schedule. */
  scheduledCount: number;
  /** When the event was created: the 72 hours begin then. */
  createdAtMs: number;
  /** The next attempt or the expiry. Null: settled or held. */
  dueAtMs: number | null;
};

export type Endpoint = {
  status: "enabled" | "disabled" | "deleted";
  consecutiveFailures: number;
  /** Set when failures disabled the endpoint, not by hand. */
  disabledAtMs: number | null;
};

/** `test` is scheduled as usual. `manual` is one attempt that does not change the schedule. */
export type Trigger = "scheduled" | "manual" | "test";
export type Outcome =
  | { answered: true; status: number; retryAfterMs?: number | undefined }
  | { answered: false; error: "timeout" | "address_refused" | "unresolved" | "connection" | "tls" };
export type AttemptEnd = { trigger: Trigger; endedAtMs: number; outcome: Outcome };

const DISABLING_FAILURES = 50;
const GONE_STATUS = 410;

export const isSuccess = (status: number): boolean => status >= 200 && status < 300;

export const newDelivery = (id: string, createdAtMs: number): Delivery => ({
  id,
  status: "pending",
  attemptCount: 0,
  scheduledCount: 0,
  createdAtMs,
  dueAtMs: createdAtMs,
});

/** The action that a due delivery needs now. Called again right before each attempt, since both rows may have changed. */
export function dueAction(
  delivery: Delivery,
  endpoint: Endpoint,
  nowMs: number,
): "attempt" | "expire" | "cancel" | "hold" | "resume" | "wait" {
  if (delivery.status !== "pending") return "wait";
  if (endpoint.status === "deleted") return "cancel";
  if (nowMs >= expiryOf(delivery.createdAtMs)) return "expire";
  if (endpoint.status === "disabled") return delivery.dueAtMs === null ? "wait" : "hold";
  if (delivery.dueAtMs === null) return "resume";
  return dueTimeMs(delivery.dueAtMs, nowMs) <= nowMs ? "attempt" : "wait";
}

/** The next attempt for the API: an expiry is not an attempt. */
export const nextAttemptMs = ({ dueAtMs, createdAtMs }: Delivery): number | null =>
  dueAtMs !== null && dueAtMs < expiryOf(createdAtMs) ? dueAtMs : null;

export const settled = (delivery: Delivery, status: Exclude<DeliveryStatus, "pending">): Delivery => ({
  ...delivery,
  status,
  dueAtMs: null,
});

export const held = (delivery: Delivery): Delivery => ({ ...delivery, dueAtMs: null });

/** A held delivery whose endpoint was enabled again is tried at once. It keeps its place in the schedule. */
export const resumed = (delivery: Delivery, nowMs: number): Delivery => ({ ...delivery, dueAtMs: nowMs });

/** A new delivery for an endpoint that may have been disabled or deleted since the event. */
export function firstState(delivery: Delivery, endpoint: Pick<Endpoint, "status">, nowMs: number): Delivery {
  if (endpoint.status === "deleted") return settled(delivery, "cancelled");
  if (nowMs >= expiryOf(delivery.createdAtMs)) return settled(delivery, "exhausted");
  return endpoint.status === "disabled" ? held(delivery) : delivery;
}

/** The endpoint after a PATCH. Its failures start at 0, so the first failure does not disable it again. */
export const enabled = (endpoint: Endpoint): Endpoint =>
  endpoint.status === "disabled" ? { status: "enabled", consecutiveFailures: 0, disabledAtMs: null } : endpoint;

export type Judgement = {
  delivery: Delivery;
  endpoint: Endpoint;
  /** The endpoint was disabled by this attempt: its other pending deliveries are held from the same commit on. */
  holdOthers: boolean;
};

export function judge(delivery: Delivery, endpoint: Endpoint, attempt: AttemptEnd): Judgement {
  const counted = countAttempt(delivery, attempt.trigger);
  const answer = attempt.outcome.answered ? attempt.outcome.status : 0;
  if (isSuccess(answer))
    return {
      delivery: settled(counted, "succeeded"),
      endpoint: { ...endpoint, consecutiveFailures: 0 },
      holdOthers: false,
    };
  const isFirst = delivery.attemptCount === 0; // a delivery counts once, however often it is retried
  const consecutiveFailures = endpoint.consecutiveFailures + (isFirst ? 1 : 0);
  const disables =
    endpoint.status === "enabled" && (answer === GONE_STATUS || consecutiveFailures >= DISABLING_FAILURES);
  const after: Endpoint = disables
    ? { status: "disabled", consecutiveFailures, disabledAtMs: attempt.endedAtMs }
    : { ...endpoint, consecutiveFailures };
  return { delivery: afterFailure(counted, after, attempt), endpoint: after, holdOthers: disables };
}

const countAttempt = (delivery: Delivery, trigger: Trigger): Delivery => ({
  ...delivery,
  attemptCount: delivery.attemptCount + 1,
  scheduledCount: delivery.scheduledCount + (trigger === "manual" ? 0 : 1),
});

function afterFailure(delivery: Delivery, endpoint: Endpoint, { trigger, endedAtMs, outcome }: AttemptEnd): Delivery {
  if (delivery.status !== "pending") return delivery; // an attempt by hand does not change a settled delivery
  if (outcome.answered && outcome.status === GONE_STATUS) return settled(delivery, "failed");
  if (endpoint.status === "deleted") return settled(delivery, "cancelled");
  if (trigger !== "manual" && endedAtMs >= expiryOf(delivery.createdAtMs)) return settled(delivery, "exhausted");
  if (endpoint.status === "disabled") return held(delivery);
  if (trigger === "manual") return delivery;
  const { id, scheduledCount: attempts, createdAtMs } = delivery;
  const retryAfterMs = outcome.answered ? outcome.retryAfterMs : undefined;
  const random = jitterOf(id, attempts);
  return { ...delivery, dueAtMs: nextDueMs({ attempts, endedAtMs, createdAtMs, retryAfterMs, random }) };
}
