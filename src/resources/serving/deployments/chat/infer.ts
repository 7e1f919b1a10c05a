/**
 * One inference request, from its admission to its record: it waits for a replica, goes to the worker over its socket, and
 * its answer is whole or a stream that is relayed as it comes. A caller that leaves aborts the fetch, which ends the work
 * in the worker too.
 */
import type { Ctx } from "../../../../context.ts";
import { openaiEnvelope } from "../../../../http/answer/client_errors.ts";
import { openStream } from "../../../../http/limits/streams.ts";
import { AppError } from "../../../../lib/errors.ts";
import { CLIENT_LEFT_STATUS, ClientLeft } from "../../../../lib/net/client_left.ts";
import { encodeSse, sseData } from "../../../../lib/net/sse.ts";
import { takeTurn } from "../fleet/background.ts";
import { liveOf, loadOf, take } from "../fleet/fleet.ts";
import * as moves from "../fleet/moves.ts";
import type { DeploymentRow } from "../table.ts";
import { codeOf, errorOf, messageOf } from "./error_message.ts";
import { Flight, type InferenceCall } from "./flight.ts";
import type { Outcome } from "./records.ts";
import { chunksOf, relay } from "./relay.ts";
import { send } from "./send.ts";
import { mustBeOpen, waitFor } from "./wait.ts";

const STAGE_MS = 1_000;
/** A stream whose first token takes longer begins with a comment. Its errors are events then, not statuses. */
const BEGIN_MS = 700;

/** A request without `model` gets the name of the deployment, which its answer then has too. */
export type InferenceRequest = Omit<InferenceCall, "body"> & {
  body: Omit<InferenceCall["body"], "model"> & { model?: string | undefined };
  /** Aborts when the caller no longer wants the answer. */
  signal: AbortSignal;
};

/** `id`: of the record. `status`: of the worker, also an error. `latencyMs` does not count a wait for a turn. */
export type Whole = {
  id: string;
  traceId: string;
  status: number;
  text: string;
  retryAfter: string | null;
  latencyMs: number;
};
export type Reply = Whole | { traceId: string; stream: ReadableStream<Uint8Array> };

/** Throws the error that a client reads, or `ClientLeft` after an abort. The answer is a stream if the body says so. */
export async function infer(ctx: Ctx, row: DeploymentRow, request: InferenceRequest): Promise<Reply> {
  mustBeOpen(row);
  const { background, signal } = request;
  const release = background ? await takeTurn(liveOf(ctx, row.id), signal) : streamPermit(ctx, row, request);
  const flight = begin(ctx, row, request, release);
  try {
    const replica = take(flight.live);
    if (replica) flight.attach(replica);
    else {
      const held = waitFor(flight); // a queue that is full is answered with a status, not with an event
      if (request.body.stream) return stream(flight, wakeAndRelay(flight, held));
      await held;
    }
    const answering = send(flight);
    if (request.body.stream && !(await settlesSoon(ctx, answering)))
      return stream(flight, answered(flight, answering), { isLate: true });
    const whole = await answering;
    if ("body" in whole) return stream(flight, chunksOf(whole.body));
    const { status, text } = whole;
    flight.keep(text);
    flight.finish(status < 400 ? { status, error: null } : failureOf(status, text));
    return { id: flight.id, traceId: flight.traceId, latencyMs: flight.elapsedMs, ...whole };
  } catch (error) {
    const cause = causeOf(flight, error);
    flight.finish(outcomeOf(cause));
    throw cause instanceof ClientLeft ? cause : explain(cause);
  }
}

/** The whole answer to a request whose body asks for no stream. */
export async function inferWhole(ctx: Ctx, row: DeploymentRow, request: InferenceRequest): Promise<Whole> {
  const reply = await infer(ctx, row, request);
  if (!("stream" in reply)) return reply;
  await reply.stream.cancel();
  throw new Error("a request without `stream` was answered with a stream");
}

/** Returns the function that closes the stream. */
function streamPermit(ctx: Ctx, { workspaceId }: DeploymentRow, { body, keyId }: InferenceRequest): () => void {
  return body.stream && keyId !== null ? openStream(ctx, { workspaceId, keyId }) : () => {};
}

/** `release` gives back the permit of an open stream, or the turn of a background request. */
function begin(ctx: Ctx, row: DeploymentRow, { signal, body, ...call }: InferenceRequest, release: () => void): Flight {
  try {
    const flight = new Flight(ctx, row, { ...call, body: { ...body, model: body.model ?? row.name } }, () => {
      signal.removeEventListener("abort", leave);
      release();
    });
    const leave = () => flight.abort(new ClientLeft());
    signal.addEventListener("abort", leave, { once: true });
    if (signal.aborted) leave();
    return flight;
  } catch (error) {
    release(); // for example, there is no such adapter
    throw error;
  }
}

async function settlesSoon({ clock }: Ctx, answering: Promise<unknown>): Promise<boolean> {
  const pause = new AbortController();
  const settled = answering.then(
    () => true,
    () => true,
  );
  const late = clock.sleep(BEGIN_MS, pause.signal).then(() => false);
  return await Promise.race([settled, late]).finally(() => pause.abort());
}

/** `isLate`: the stream begins with a comment. */
function stream(flight: Flight, source: AsyncIterator<Uint8Array>, { isLate = false } = {}): Reply {
  const body = relay(source, {
    clock: flight.ctx.clock,
    isLate,
    onChunk: (chunk) => flight.receive(chunk),
    onLeave: () => flight.abort(new ClientLeft()),
    onEnd: (error) =>
      flight.finish(error === undefined ? { status: 200, error: null } : outcomeOf(causeOf(flight, error))),
    explain: (error) => explain(causeOf(flight, error)),
  });
  return { traceId: flight.traceId, stream: body };
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
  yield* answered(flight, send(flight));
}

/** The answer to a stream that has begun: a refusal of the worker is an event too. */
async function* answered(flight: Flight, answering: ReturnType<typeof send>): AsyncGenerator<Uint8Array> {
  const whole = await answering;
  if ("body" in whole) return yield* { [Symbol.asyncIterator]: () => chunksOf(whole.body) };
  const error = errorOf(whole.status, whole.text);
  yield encoder.encode(sseData(error ? JSON.stringify(openaiEnvelope(error)) : whole.text));
  flight.finish(failureOf(whole.status, whole.text));
}

/** An aborted fetch fails with its own error or with our reason. An aborted signal has the real cause. */
const causeOf = ({ signal }: Flight, error: unknown): unknown => (signal.aborted ? signal.reason : error);

function explain(error: unknown): AppError {
  if (error instanceof AppError) return error;
  return new AppError("worker_failed", "The replica that answered this request was lost: try again", { cause: error });
}

/** The error of a worker, as the client reads it. */
function failureOf(status: number, text: string): Outcome {
  const code = codeOf(text);
  return { status, error: messageOf(text), code: typeof code === "string" ? code : null };
}

function outcomeOf(error: unknown): Outcome {
  if (error instanceof ClientLeft) return { status: CLIENT_LEFT_STATUS, error: error.message, code: "client_left" };
  const { status, message, code } = explain(error);
  return { status, error: message, code };
}
