/**
 * Sends a request to its replica. If the replica is lost before it has answered, another one gets the request, once. The
 * client then reads a slow answer instead of an error. A stream that has begun is never sent again.
 */
import { AppError } from "../../../../lib/errors.ts";
import { isReachable, take } from "../fleet/fleet.ts";
import * as moves from "../fleet/moves.ts";
import { codeOf, messageOf } from "./error_message.ts";
import type { Flight } from "./flight.ts";
import { waitFor } from "./wait.ts";

/** A stream that has begun, or a whole answer. */
type Answered = { body: ReadableStream<Uint8Array> } | { status: number; text: string; retryAfter: string | null };

const RETRIES = 1; // more would let a request that crashes its replica crash several
const EXIT_MS = 5_000; // a broken connection usually means that the process ends

export async function send(flight: Flight): Promise<Answered> {
  for (let left = RETRIES; ; left--) {
    try {
      return await attempt(flight);
    } catch (error) {
      if (left === 0 || isFinal(error) || !(await mayRetry(flight))) throw error;
    }
    flight.detach();
    const replica = take(flight.live);
    if (replica) flight.attach(replica);
    else await waitFor(flight);
  }
}

/** The request itself is refused, for example because of its image. */
const isFinal = (error: unknown) =>
  error instanceof AppError && error.code !== "shutting_down" && error.code !== "worker_failed";

/** Throws if the replica is lost, or about to end. */
async function attempt(flight: Flight): Promise<Answered> {
  const got = await flight.send();
  if (got.ok && flight.call.body.stream && got.body) return { body: got.body };
  const text = await got.text();
  if (!got.ok && codeOf(text) === "shutting_down")
    throw new AppError("shutting_down", messageOf(text), { retryAfterSeconds: 1 });
  return { status: got.status, text, retryAfter: got.headers.get("retry-after") };
}

/** The client still waits, and the deployment still wants to serve. The lost process must not be chosen again. */
async function mayRetry({ ctx, row, signal, replica }: Flight): Promise<boolean> {
  if (replica?.state === "ready" && isReachable(replica) && !signal.aborted) {
    const exit = new AbortController();
    const pause = ctx.clock.sleep(EXIT_MS, AbortSignal.any([signal, exit.signal]));
    await Promise.race([replica.host.worker.exited, pause]);
    exit.abort();
  }
  const fresh = moves.current(ctx.db, row.id);
  if (signal.aborted || ctx.closing.aborted || !fresh) return false;
  return !fresh.parked && fresh.status !== "stopped" && fresh.status !== "failed";
}
