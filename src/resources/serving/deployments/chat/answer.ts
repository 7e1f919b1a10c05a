/**
 * Answers an inference request: it waits for a replica, goes to the worker over its socket, and its answer is relayed
 * as it comes. A client that leaves aborts the fetch, which ends the work in the worker too.
 */
import type { Ctx } from "../../../../context.ts";
import { clientErrorResponse, clientFormatOf, openaiEnvelope } from "../../../../http/answer/client_errors.ts";
import { keepOpen } from "../../../../http/connection.ts";
import { openStream } from "../../../../http/limits/streams.ts";
import { callerOf, skipFlush } from "../../../../http/request_state.ts";
import { AppError } from "../../../../lib/errors.ts";
import { CLIENT_LEFT_STATUS, ClientLeft } from "../../../../lib/net/client_left.ts";
import { pathOf } from "../../../../lib/net/request_target.ts";
import { encodeSse, SSE_HEADERS, sseData } from "../../../../lib/net/sse.ts";
import { loadOf, take } from "../fleet/fleet.ts";
import * as moves from "../fleet/moves.ts";
import type { DeploymentRow } from "../table.ts";
import { codeOf, errorOf, messageOf } from "./error_message.ts";
import { Flight, type InferenceCall } from "./flight.ts";
import type { Outcome } from "./records.ts";
import { chunksOf, relay } from "./relay.ts";
import { send } from "./send.ts";
import { mustBeOpen, waitFor } from "./wait.ts";

const STAGE_MS = 1_000;
export async function answer(ctx: Ctx, row: DeploymentRow, request: Request, call: InferenceCall): Promise<Response> {
  mustBeOpen(row);
  keepOpen(ctx, request);
  skipFlush(request);
  const caller = callerOf(request);
  const flight = new Flight(ctx, row, call, call.body.stream && caller ? openStream(ctx, caller) : () => {});
  request.signal.addEventListener("abort", () => flight.abort(new ClientLeft()), { once: true });
  if (request.signal.aborted) flight.abort(new ClientLeft());
  try {
    const replica = take(flight.live);
    if (replica) flight.attach(replica);
    else {
      const held = waitFor(flight); // a queue that is full is answered with a status, not with an event
      if (call.body.stream) return stream(flight, wakeAndRelay(flight, held));
      await held;
    }
    const answered = await send(flight);
    if ("body" in answered) return stream(flight, chunksOf(answered.body));
    const { status, text, retryAfter } = answered;
    flight.keep(text);
    flight.finish(status < 400 ? { status, error: null } : failureOf(status, text));
    const headers = {
      "content-type": "application/json",
      "x-trace-id": flight.traceId,
      ...(retryAfter === null ? {} : { "retry-after": retryAfter }),
    };
    return status < 400 ? new Response(text, { status, headers }) : refused(request, answered, headers);
  } catch (error) {
    const cause = causeOf(flight, error);
    flight.finish(outcomeOf(cause));
    throw cause instanceof ClientLeft ? cause : explain(cause);
  }
}

/** An error of the worker, in the format of the route. */
function refused(request: Request, { status, text }: { status: number; text: string }, headers: object): Response {
  const known = errorOf(status, text);
  const format = clientFormatOf(pathOf(request));
  if (!known || !format) return new Response(text, { status, headers: { ...headers } });
  const answer = clientErrorResponse(format, known);
  for (const [name, value] of Object.entries(headers)) answer.headers.set(name, value);
  return answer;
}

function stream(flight: Flight, source: AsyncIterator<Uint8Array>): Response {
  const body = relay(source, {
    onChunk: (chunk) => flight.receive(chunk),
    onLeave: () => flight.abort(new ClientLeft()),
    onEnd: (error) =>
      flight.finish(error === undefined ? { status: 200, error: null } : outcomeOf(causeOf(flight, error))),
    explain: (error) => explain(causeOf(flight, error)),
  });
  return new Response(body, { headers: { ...SSE_HEADERS, "x-trace-id": flight.traceId } });
}

const encoder = new TextEncoder();

/** While it waits, a client that streams reads in comments how far the wake is. Errors come as events. */
async function* wakeAndRelay(flight: Flight, held: Promise<true>): AsyncGenerator<Uint8Array> {
  const { ctx, row, live } = flight;
  for (let last = ""; !flight.replica; ) {
    if (flight.isOver) return;
    const { stage, progress, reason } = loadOf(moves.current(ctx.db, row.id) ?? row, live);
    const next = `waking: ${reason ?? `${stage} ${Math.round(progress * 100)} %`}`;
    if (next !== last) yield encoder.encode(encodeSse({ comment: next }));
    last = next;
    const pause = new AbortController();
    await Promise.race([held, ctx.clock.sleep(STAGE_MS, pause.signal)]);
    pause.abort();
  }
  const answered = await send(flight);
  if ("body" in answered) return yield* { [Symbol.asyncIterator]: () => chunksOf(answered.body) };
  const known = errorOf(answered.status, answered.text);
  yield encoder.encode(sseData(known ? JSON.stringify(openaiEnvelope(known)) : answered.text));
  flight.finish(failureOf(answered.status, answered.text));
}

/** An aborted fetch fails with its own error or with our reason. An aborted signal has the real cause. */
export const causeOf = ({ signal }: Flight, error: unknown): unknown => (signal.aborted ? signal.reason : error);

export function explain(error: unknown): AppError {
  if (error instanceof AppError) return error;
  return new AppError("worker_failed", "The replica that answered this request was lost: try again", { cause: error });
}

/** The error of a worker, as the client reads it. */
export function failureOf(status: number, text: string): Outcome {
  const code = codeOf(text);
  return { status, error: messageOf(text), code: typeof code === "string" ? code : null };
}

export function outcomeOf(error: unknown): Outcome {
  if (error instanceof ClientLeft) return { status: CLIENT_LEFT_STATUS, error: error.message, code: "client_left" };
  const { status, message, code } = explain(error);
  return { status, error: message, code };
}
