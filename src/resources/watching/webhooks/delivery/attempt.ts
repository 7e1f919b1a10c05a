import type { Ctx } from "../../../../context.ts";
import { deliveryHeaders, serviceHeaders } from "../../../../lib/webhooks/signature.ts";
import { errorCode } from "../../../../platform/files.ts";
import { DialError } from "../../../../platform/network/address.ts";
import type { GuardedResponse } from "../../../../platform/network/http_client.ts";
import { signingSecrets } from "../rotation.ts";
import { openSecrets } from "../sealing.ts";
import type { EndpointRow } from "../table.ts";
import { parseRetryAfter } from "./retry_schedule.ts";
import { isSuccess, type Outcome } from "./verdict.ts";

const TIMEOUT_MS = 10_000;
const READ_BYTES = 65_536;
const KEPT_BYTES = 1_024;

export type Attempt = {
  endpoint: Pick<EndpointRow, "id" | "url" | "secrets" | "scheme">;
  eventId: string;
  /** Undefined: the body is lost, and the attempt fails. */
  body: Uint8Array<ArrayBuffer> | undefined;
  /** The last answer came over a connection that may still be open. */
  warm: boolean;
};

/** The columns of the attempt's row, the outcome for `judge`, and a body that had not come with the status. */
export type AttemptResult = {
  attemptedAt: number;
  endedAt: number;
  outcome: Outcome;
  responseCode: number | null;
  responseBody: string | null;
  errorCode: string | null;
  errorMessage: string | null;
  lateBody?: Promise<string | null> | undefined;
};

/** Sends one signed request. A 2xx ends it at the status line; any other answer is read. Throws only what `signal` was aborted with. */
export async function attempt(ctx: Ctx, request: Attempt, signal: AbortSignal): Promise<AttemptResult> {
  const attemptedAt = ctx.clock.now();
  const none = { responseCode: null, responseBody: null, errorCode: null, errorMessage: null };
  try {
    const { status, headers, body, late } = await send(ctx, request, attemptedAt, signal);
    const endedAt = ctx.clock.now();
    const retryAfterMs = isSuccess(status) ? undefined : parseRetryAfter(headers.get("retry-after"), endedAt);
    const outcome: Outcome = { answered: true, status, retryAfterMs };
    const responseBody = excerpt(body);
    return {
      ...none,
      attemptedAt,
      endedAt,
      outcome,
      responseCode: status,
      responseBody,
      lateBody: late?.then(excerpt),
    };
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    const endedAt = ctx.clock.now();
    if (error instanceof DialError) {
      const { code, message } = error;
      const outcome: Outcome = { answered: false, error: code };
      return { ...none, attemptedAt, endedAt, outcome, errorCode: code, errorMessage: message };
    }
    // The failure counts as an attempt: a row that cannot be sent must not be retried for ever.
    ctx.log.error("a webhook could not be sent", { endpoint: request.endpoint.id, event: request.eventId, error });
    const outcome: Outcome = { answered: false, error: "connection" };
    const errorMessage = "The server could not send the request; its log has the details";
    return { ...none, attemptedAt, endedAt, outcome, errorCode: "internal", errorMessage };
  }
}

async function send(ctx: Ctx, attempt: Attempt, now: number, signal: AbortSignal): Promise<GuardedResponse> {
  const { endpoint, eventId, body } = attempt;
  if (body === undefined) throw new Error(`The body of ${eventId} is missing`);
  const secrets = signingSecrets(openSecrets(ctx, endpoint), now);
  const message = { id: eventId, timestampSeconds: Math.floor(now / 1000), body };
  const headers = (endpoint.scheme === "service" ? serviceHeaders : deliveryHeaders)(message, secrets);
  const request = { method: "POST", headers, body, maxResponseBytes: READ_BYTES, isEnough: isSuccess, signal };
  const begun = performance.now();
  try {
    return await ctx.dial(endpoint.url, { ...request, timeoutMs: TIMEOUT_MS, keepAlive: true });
  } catch (error) {
    const leftMs = Math.floor(TIMEOUT_MS - (performance.now() - begun));
    if (!attempt.warm || !wasClosed(error) || signal.aborted || leftMs < 1) throw error;
    return await ctx.dial(endpoint.url, { ...request, timeoutMs: leftMs }); // the receiver had closed an idle connection
  }
}

const CLOSED = new Set(["ECONNRESET", "EPIPE", "ConnectionClosed"]);
const wasClosed = (error: unknown) =>
  error instanceof DialError && error.code === "connection" && CLOSED.has(errorCode(error.cause) ?? "");

/** The beginning of the answer, for a person to read. Bytes that are not UTF-8 become U+FFFD. */
const excerpt = (body: Uint8Array): string | null =>
  body.length === 0 ? null : decoder.decode(body.subarray(0, KEPT_BYTES));
const decoder = new TextDecoder();
