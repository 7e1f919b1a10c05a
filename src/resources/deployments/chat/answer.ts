/**
 * Answers an inference request: it waits for a replica, goes to the worker over its socket, and its answer is relayed
 * as it comes. A client that leaves aborts the fetch, which ends the work in the worker too.
 */
import type { Ctx } from "../../../context.ts";
import { keepOpen } from "../../../http/connection.ts";
import { openStream } from "../../../http/limits/streams.ts";
import { callerOf, skipFlush } from "../../../http/request_state.ts";
import { AppError } from "../../../lib/errors.ts";
import { CLIENT_LEFT_STATUS, ClientLeft } from "../../../lib/net/client_left.ts";
import { encodeSse, SSE_HEADERS, sseData } from "../../../lib/net/sse.ts";
import { MINUTE_MS } from "../../../lib/units.ts";
import { counter } from "../../../platform/metrics.ts";
import * as billing from "../../billing/service.ts";
import { loadOf, take } from "../fleet/fleet.ts";
import { hold } from "../fleet/held_requests.ts";
import * as moves from "../fleet/moves.ts";
import type { DeploymentRow } from "../table.ts";
import { Flight, type InferenceCall } from "./flight.ts";
import type { Outcome } from "./records.ts";
import { chunksOf, relay } from "./relay.ts";

const STAGE_MS = 1_000;
const heldRequests = counter("verk_requests_held_total", "Requests that had to wait for a replica", []);
const wakes = counter("verk_deployment_wakes_total", "Times that a request woke a parked deployment", []);

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
    const got = await flight.send();
    if (got.ok && call.body.stream && got.body) return stream(flight, chunksOf(got.body));
    const text = await got.text();
    flight.finish({ status: got.status, error: got.ok ? null : messageOf(text) });
    const retry = got.headers.get("retry-after");
    const headers = { "content-type": "application/json", ...(retry === null ? {} : { "retry-after": retry }) };
    return new Response(text, { status: got.status, headers });
  } catch (error) {
    const cause = causeOf(flight, error);
    flight.finish(outcomeOf(cause));
    throw explain(cause);
  }
}

function mustBeOpen({ id, name, status, error }: DeploymentRow) {
  if (status !== "stopped" && status !== "failed") return;
  const why = error === null ? "" : ` (${error.split("\n", 1)[0]})`;
  const fix = `start it with POST /v1/deployments/${id}/start`;
  throw new AppError("unsupported_state", `Deployment ${name} is ${status}${why}: ${fix}`);
}

/** Resolves once the flight has a replica. A burst loads the model once: only its first request wakes the deployment. */
function waitFor(flight: Flight): Promise<true> {
  const { ctx, row, call } = flight;
  const { workspaceId } = row;
  const fresh = moves.current(ctx.db, row.id) ?? row;
  mustBeOpen(fresh);
  const { costPerHourMicros: ratePerHourMicros } = fresh;
  const aMinute = { ratePerHourMicros, micros: billing.costOf(ratePerHourMicros, MINUTE_MS) };
  if (fresh.parked) billing.mustAfford(ctx, { workspaceId, keyId: call.keyId }, aMinute);
  const held = hold(ctx, fresh, flight.signal).then((replica) => {
    flight.attach(replica);
    return true as const;
  });
  held.catch(() => {}); // its reader, if there is one, gets the error
  heldRequests.add(ctx.db, workspaceId, []);
  if (!fresh.parked || !moves.wake(ctx, row.id, call.keyId)) return held;
  wakes.add(ctx.db, workspaceId, []);
  ctx.wake("deployments.reconcile");
  return held;
}

function stream(flight: Flight, source: AsyncIterator<Uint8Array>): Response {
  const body = relay(source, {
    onChunk: () => flight.prove(),
    onLeave: () => flight.abort(new ClientLeft()),
    onEnd: (error) =>
      flight.finish(error === undefined ? { status: 200, error: null } : outcomeOf(causeOf(flight, error))),
    explain: (error) => explain(causeOf(flight, error)),
  });
  return new Response(body, { headers: SSE_HEADERS });
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
  const got = await flight.send();
  if (got.ok && got.body)
    return yield* { [Symbol.asyncIterator]: () => chunksOf(got.body as ReadableStream<Uint8Array>) };
  const text = await got.text();
  yield encoder.encode(sseData(text));
  flight.finish({ status: got.status, error: messageOf(text) });
}

/** An aborted fetch fails with its own error or with our reason. An aborted signal has the real cause. */
const causeOf = ({ signal }: Flight, error: unknown): unknown => (signal.aborted ? signal.reason : error);

function explain(error: unknown): AppError {
  if (error instanceof AppError) return error;
  return new AppError("worker_failed", "The replica that answered this request was lost: try again", { cause: error });
}

function outcomeOf(error: unknown): Outcome {
  if (error instanceof ClientLeft) return { status: CLIENT_LEFT_STATUS, error: error.message };
  const { status, message } = explain(error);
  return { status, error: message };
}

/** The message of an error envelope, for the record. */
function messageOf(text: string): string {
  try {
    return String((JSON.parse(text) as { error: { message: unknown } }).error.message).slice(0, 1000);
  } catch {
    return text.slice(0, 1000);
  }
}
