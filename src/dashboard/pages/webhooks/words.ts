/** Endpoints, deliveries and answers in words. Pure. */
import type { Delivery, WebhookEndpoint } from "../../../resources/watching/webhooks/schema.ts";
import { duration, plural } from "../../data/format.ts";
import type { Tone } from "../../kit/pill.tsx";

const DISABLED: Readonly<Record<string, string>> = {
  consecutive_failures: "Too many deliveries in a row failed. Enable it when the server answers again.",
  gone: "The server answered 410 Gone.",
  by_hand: "Disabled by hand. Events wait.",
};

type Health = Pick<WebhookEndpoint, "enabled" | "disabled_reason" | "consecutive_failures">;

export function stateOf({ enabled, disabled_reason: why, consecutive_failures: failures }: Health) {
  if (!enabled) return { status: "disabled", reason: DISABLED[why ?? "by_hand"] ?? String(why) };
  return failures === 0
    ? { status: "enabled" }
    : { status: "degraded", reason: `${plural(failures, "delivery", "deliveries")} in a row failed` };
}

export type Status = Delivery["status"];
export const STATUSES: Readonly<Record<Status, readonly [shown: string, tone: Tone]>> = {
  succeeded: ["Delivered", "good"],
  pending: ["Waiting", "wait"],
  failed: ["Failed", "bad"],
  exhausted: ["Expired", "bad"],
  cancelled: ["Cancelled", "idle"],
};

export type Attempt = Delivery["attempts"][number];
export const isSuccess = ({ response_code: code }: Pick<Attempt, "response_code">): boolean =>
  code !== null && code >= 200 && code < 300;

const NO_ANSWER: Readonly<Record<string, readonly [short: string, why: string]>> = {
  timeout: ["no answer within 10 s", "Answer with a 2xx status first, and do the work afterwards."],
  unresolved: ["name not found", "DNS does not know the name of this server. Check the address."],
  tls: ["certificate refused", "The certificate does not fit the address, or its authority is not known here."],
  address_refused: ["address refused", "The address is not public. The operator can allow it: network.allow."],
  connection: ["no connection", "The server refused or closed the connection. Check that it runs and is reachable."],
};

const ANSWERS: Readonly<Record<number, string>> = {
  401: "The server wants a sign-in. A delivery has a signature only.",
  403: "The server refuses the request. Check the secret and any firewall in front of the server.",
  404: "The server has nothing at this path. Check the end of the address.",
  405: "The server takes no POST at this path.",
  410: "The server answered that it is gone for good. This disables the endpoint.",
  413: "The server refuses a body of this size.",
  429: "The server has too many requests. The next attempt waits as long as it asks for.",
};

/** "200 in 34 ms", "no answer within 10 s" */
export const answerOf = ({ response_code: code, error_code: error, duration_ms: ms }: Attempt): string =>
  code === null ? (NO_ANSWER[error ?? ""]?.[0] ?? "no answer") : `${code} in ${duration(ms / 1000)}`;

/** The next step after a bad answer. Undefined after a success. */
export function adviceOf({ response_code: code, error_code: error }: Attempt): string | undefined {
  if (code === null) return NO_ANSWER[error ?? ""]?.[1];
  if (code >= 200 && code < 300) return undefined;
  if (code < 400) return "Redirects are not followed. Enter the final address.";
  return ANSWERS[code] ?? (code < 500 ? "The server refuses the request." : "The server failed. Look into its log.");
}
