/** Endpoints and deliveries in words. Pure. */
import type { Delivery, WebhookEndpoint } from "../../../resources/watching/webhooks/schema.ts";
import { plural } from "../../data/format.ts";

const DISABLED: Readonly<Record<string, string>> = {
  consecutive_failures: "Too many deliveries in a row failed. Enable it when the server answers again.",
  gone: "The server answered 410 Gone.",
  by_hand: "Disabled by hand. Events wait.",
};

type Said = Pick<WebhookEndpoint, "enabled" | "disabled_reason" | "consecutive_failures">;

export function stateOf({ enabled, disabled_reason: why, consecutive_failures: failures }: Said) {
  if (!enabled) return { status: "disabled", reason: DISABLED[why ?? "by_hand"] ?? String(why) };
  return failures === 0
    ? { status: "enabled" }
    : { status: "degraded", reason: `${plural(failures, "delivery", "deliveries")} in a row failed` };
}

type Sent = Pick<Delivery, "status" | "last_error" | "last_response_code" | "attempt_count">;

/** The state of a delivery for its pill, with the last answer. */
export function deliveryOf({ status, last_error: error, last_response_code: code, attempt_count: count }: Sent) {
  const answer = code === null ? error : `answered ${code}`;
  return {
    status,
    detail: count === 0 ? "no attempt yet" : plural(count, "attempt"),
    ...(answer === null ? {} : { reason: answer }),
  };
}
