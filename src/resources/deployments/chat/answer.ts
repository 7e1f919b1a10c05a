/**
 * A request on its way to a replica: held while there is none, forwarded over the worker's socket, relayed as it
 * comes. The client's leaving reaches the worker through the aborted fetch.
 */
import type { Ctx } from "../../../context.ts";
import { keepOpen } from "../../../http/connection.ts";
import { openStream } from "../../../http/limits/streams.ts";
import { callerOf, skipFlush } from "../../../http/request_state.ts";
import { CLIENT_LEFT } from "../../../lib/client_left.ts";
import { AppError } from "../../../lib/errors.ts";
import { encodeSse, SSE_HEADERS, sseData } from "../../../lib/sse.ts";
import { counter } from "../../../platform/metrics.ts";
import * as billing from "../../billing/service.ts";
import { hold, type Live, liveOf, type Replica, seenLoad } from "../fleet/fleet.ts";
import * as moves from "../fleet/moves.ts";
import { take } from "../fleet/replica.ts";
import type { DeploymentRow } from "../table.ts";
import { type Outcome, type Recorder, record } from "./records.ts";
import { chunksOf, LEFT, relay } from "./relay.ts";

/** `keyId`: of the key that asks; it pays where it wakes the deployment. */
export type Ask = {
  path: "/chat/completions" | "/completions" | "/embeddings";
  body: { model: string; stream?: boolean | undefined };
  keyId: string;
};

/** One request in flight: who asks, what, and what is known of it so far. */
type Flight = {
  ctx: Ctx;
  row: DeploymentRow;
  live: Live;
  ask: Ask;
  record: Recorder;
  /** Aborts when the client leaves, or when we break it off. */
  gone: AbortController;
  replica?: Replica;
  over: boolean;
  /** Gives back its place among the open streams. */
  close: () => void;
};

const STAGE_MS = 1_000;
const heldRequests = counter("verk_requests_held_total", "Requests that had to wait for a replica", []);
const wakes = counter("verk_deployment_wakes_total", "Times that a request woke a parked deployment", []);

export async function answer(ctx: Ctx, row: DeploymentRow, request: Request, ask: Ask): Promise<Response> {
  mustBeOpen(row);
  keepOpen(ctx, request);
  skipFlush(request);
  const caller = callerOf(request);
  const close = ask.body.stream && caller ? openStream(ctx, caller) : () => {};
  const live = liveOf(ctx, row.id);
  const gone = new AbortController();
  request.signal.addEventListener("abort", () => gone.abort(LEFT), { once: true });
  if (request.signal.aborted) gone.abort(LEFT);
  live.flights.add(gone);
  const flight: Flight = { ctx, row, live, ask, record: record(ctx, row, live), gone, over: false, close };
  const replica = take(live);
  if (replica) flight.replica = replica;
  try {
    const held = replica ?? waitFor(flight); // a full house is a status, not an event
    if (!replica && ask.body.stream) return stream(flight, wakeAndRelay(flight, held));
    flight.replica = await held;
    const got = await send(flight);
    if (got.ok && ask.body.stream && got.body) return stream(flight, chunksOf(got.body));
    const text = await got.text();
    land(flight, { status: got.status, error: got.ok ? null : messageOf(text) });
    const retry = got.headers.get("retry-after");
    const headers = { "content-type": "application/json", ...(retry === null ? {} : { "retry-after": retry }) };
    return new Response(text, { status: got.status, headers });
  } catch (error) {
    const cause = causeOf(flight, error);
    land(flight, outcomeOf(cause));
    throw explain(cause);
  }
}

function mustBeOpen({ id, name, status, error }: DeploymentRow) {
  if (status !== "stopped" && status !== "failed") return;
  const why = error === null ? "" : ` (${error.split("\n", 1)[0]})`;
  const fix = `start it with POST /v1/deployments/${id}/start`;
  throw new AppError("unsupported_state", `Deployment ${name} is ${status}${why}: ${fix}`);
}

/** One load for a whole burst: the first request wakes it, the others find it waking. */
function waitFor(flight: Flight): Promise<Replica> {
  const { ctx, row, gone, ask } = flight;
  const { workspaceId } = row;
  const fresh = moves.current(ctx.db, row.id) ?? row;
  mustBeOpen(fresh);
  const aMinute = billing.costOf(fresh.costPerHourMicros, moves.MINUTE_MS);
  if (fresh.parked) billing.mustAfford(ctx, { workspaceId, keyId: ask.keyId }, aMinute);
  const held = hold(ctx, fresh, gone.signal);
  held.then(
    (replica) => {
      // It is counted as at work from this moment, and nobody may be reading: a client that leaves now gives it back.
      if (flight.over) replica.inflight--;
      else flight.replica = replica;
    },
    () => {}, // whoever waits for it hears of it
  );
  heldRequests.add(ctx.db, workspaceId, []);
  if (!fresh.parked || !moves.wake(ctx, row.id, ask.keyId)) return held;
  wakes.add(ctx.db, workspaceId, []);
  ctx.wake("deployments.reconcile");
  return held;
}

async function send({ replica, record, ask, gone }: Flight): Promise<Response> {
  if (!replica) throw new Error("a request without a replica");
  record.sentTo(replica);
  const { host, adapter } = replica;
  const headers = { "content-type": "application/json", "x-verk-request": record.id, "x-verk-checked": "1" };
  return await fetch(`http://worker${ask.path}`, {
    unix: host.worker.socketPath,
    method: "POST",
    headers: adapter === null ? headers : { ...headers, "x-verk-adapter": adapter.name },
    body: JSON.stringify(ask.body),
    signal: gone.signal,
    timeout: false, // a long answer takes as long as it takes
  });
}

/** The request is over: it no longer counts as at work, and its record is written. Only the first call counts. */
function land(flight: Flight, outcome: Outcome) {
  const { replica, record, ctx, live, gone } = flight;
  delete flight.replica;
  flight.over = true;
  flight.close();
  live.flights.delete(gone);
  if (replica) {
    replica.inflight--;
    if (outcome.status < 400) replica.provedAt = ctx.clock.now(); // who gives up waiting proves nothing
    if (replica.inflight === 0) ctx.wake("deployments.reconcile");
  }
  record.finish(outcome);
}

function stream(flight: Flight, source: AsyncIterator<Uint8Array>): Response {
  const { ctx, gone } = flight;
  const body = relay(source, {
    onChunk: () => {
      if (flight.replica) flight.replica.provedAt = ctx.clock.now();
    },
    onEnd: (error) => {
      if (error === LEFT) gone.abort(LEFT);
      land(flight, error === undefined ? { status: 200, error: null } : outcomeOf(causeOf(flight, error)));
    },
    explain: (error) => explain(causeOf(flight, error)),
  });
  return new Response(body, { headers: SSE_HEADERS });
}

const encoder = new TextEncoder();

/** A client that streams hears how far the wake is from the first moment on; errors come as events. */
async function* wakeAndRelay(flight: Flight, held: Replica | Promise<Replica>): AsyncGenerator<Uint8Array> {
  const { ctx, row, live } = flight;
  for (let said = ""; !flight.replica; ) {
    const { stage, progress, reason } = seenLoad(moves.current(ctx.db, row.id) ?? row, live);
    const now = `waking: ${reason ?? `${stage} ${Math.round(progress * 100)} %`}`;
    if (now !== said) yield encoder.encode(encodeSse({ comment: now }));
    said = now;
    const pause = new AbortController();
    const got = await Promise.race([held, ctx.clock.sleep(STAGE_MS, pause.signal)]);
    pause.abort();
    if (got) flight.replica = got;
  }
  const got = await send(flight);
  if (got.ok && got.body)
    return yield* { [Symbol.asyncIterator]: () => chunksOf(got.body as ReadableStream<Uint8Array>) };
  const text = await got.text();
  yield encoder.encode(sseData(text));
  land(flight, { status: got.status, error: messageOf(text) });
}

/** A fetch that was broken off fails with its own error or with our reason; `gone` tells which it was. */
function causeOf({ gone }: Flight, error: unknown): unknown {
  return gone.signal.aborted ? gone.signal.reason : error;
}

function explain(error: unknown): AppError {
  if (error instanceof AppError) return error;
  return new AppError("worker_failed", "The replica that worked on this request was lost: try again", { cause: error });
}

function outcomeOf(error: unknown): Outcome {
  if (error === LEFT) return { status: CLIENT_LEFT, error: "the client left" };
  const { status, message } = explain(error);
  return { status, error: message };
}

/** The message in an error envelope, for the record. */
function messageOf(text: string): string {
  try {
    return String((JSON.parse(text) as { error: { message: unknown } }).error.message).slice(0, 1000);
  } catch {
    return text.slice(0, 1000);
  }
}
