/**
 * Turns for background requests, such as those of evaluators and experiments. A background request starts only if live
 * requests leave room for it, and it leaves one slot free for the next live request.
 */
import type { Ctx } from "../../../../context.ts";
import { allLive, type Live, readyOf } from "./fleet.ts";

/** Waits for a turn and returns the function that ends it. Rejects with the reason of `signal`. */
export async function takeTurn(live: Live, signal: AbortSignal): Promise<() => void> {
  signal.throwIfAborted();
  const { background } = live;
  const turn = Promise.withResolvers<void>();
  const begin = () => {
    background.admitted++;
    turn.resolve();
  };
  const leave = () => {
    background.waiting.delete(begin);
    turn.reject(signal.reason);
  };
  signal.addEventListener("abort", leave, { once: true });
  background.waiting.add(begin);
  admitWaiting(live);
  await turn.promise.finally(() => signal.removeEventListener("abort", leave));
  let isOver = false;
  return () => {
    if (!isOver) background.admitted--;
    isOver = true;
  };
}

/** Call it when a request ends or a replica becomes ready. A background request waits only while another request runs. */
export function admitBackground(ctx: Pick<Ctx, "state">) {
  for (const live of allLive(ctx)) admitWaiting(live);
}

function admitWaiting(live: Live) {
  const { waiting } = live.background;
  for (const begin of waiting) {
    if (!hasRoom(live)) return;
    waiting.delete(begin);
    begin();
  }
}

/** Without a ready replica, one background request goes ahead: it wakes the deployment, or learns why it cannot. */
function hasRoom(live: Live): boolean {
  const { admitted } = live.background;
  const hosts = new Set(readyOf(live).map(({ host }) => host));
  if (hosts.size === 0) return admitted === 0;
  if (live.held.size > 0) return false;
  let slots = 0;
  let busy = admitted + [...live.flights].filter(({ call }) => !call.background).length;
  for (const { parallel, users } of hosts) {
    slots += parallel;
    for (const [replica, owner] of users) if (owner !== live) busy += replica.inflight;
  }
  return busy < Math.max(1, slots - 1);
}
