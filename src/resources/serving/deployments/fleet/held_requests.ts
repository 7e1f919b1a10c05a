/**
 * Requests that wait for a deployment to wake. A burst of requests is held here while one wake runs; each request gets a
 * replica, or an error that says why there is none.
 */
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import type { Load } from "../schema.ts";
import type { DeploymentRow } from "../table.ts";
import { choose, type Live, liveOf, loadOf, type Replica } from "./fleet.ts";
import { current } from "./moves.ts";

/** Waits until a replica is ready, the wake timeout has passed, or the client has left. Throws if too many wait. */
export function hold(ctx: Ctx, row: DeploymentRow, signal: AbortSignal): Promise<Replica> {
  const live = liveOf(ctx, row.id);
  if (live.held.size >= row.maxHeldRequests)
    throw new AppError(
      "rate_limited",
      `${live.held.size} requests wait for ${row.name} already (max_held_requests): try again soon`,
      {
        retryAfterSeconds: 5,
      },
    );
  const { promise, resolve, reject } = Promise.withResolvers<Replica>();
  const request = { resolve, reject };
  const admitted = new AbortController();
  /** Leaves the queue at once: a request that `admitHeld` takes from it counts as inflight. */
  const giveUp = (error: unknown) => {
    live.held.delete(request);
    reject(error);
  };
  const leave = () => giveUp(signal.reason);
  live.held.add(request);
  if (signal.aborted) leave();
  signal.addEventListener("abort", leave, { once: true });
  void ctx.clock.sleep(row.wakeTimeoutSeconds * 1000, admitted.signal).then(() => {
    if (!admitted.signal.aborted) giveUp(stillWaking(row, loadOf(current(ctx.db, row.id) ?? row, live)));
  });
  return promise.finally(() => {
    admitted.abort();
    signal.removeEventListener("abort", leave);
  });
}

function stillWaking(row: DeploymentRow, load: Load): AppError {
  const why = load.reason ?? `${load.stage} ${Math.round(load.progress * 100)} %`;
  return new AppError(
    "deployment_waking",
    `${row.name} was not ready within ${row.wakeTimeoutSeconds} seconds (${why}): try again, or raise wake_timeout_seconds`,
    { retryAfterSeconds: 5 },
  );
}

/** A replica is ready: all requests that wait get one, in turns, because there may be thousands. */
export async function admitHeld(live: Live): Promise<void> {
  const turn = takingTurns();
  for (const held of [...live.held]) {
    if (!live.held.has(held)) continue; // it has left
    const replica = choose(live);
    if (!replica) return;
    live.held.delete(held);
    held.resolve(replica.acquire()); // acquired here, so that the next choice counts it
    await turn();
  }
}

export function rejectHeld(live: Live, error: AppError) {
  for (const held of [...live.held]) {
    live.held.delete(held);
    held.reject(error);
  }
}
