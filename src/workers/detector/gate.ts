/**
 * Limits the bytes of pixels in memory. Requests wait in order, so that small images do not starve a large one. One
 * image may use the whole limit, never more.
 */
import { ClientLeft } from "../../lib/net/client_left.ts";
import { type Release, Semaphore } from "../../platform/semaphore.ts";

export type Gate = {
  /** Returns the release function. */
  enter: (amount: number, signal: AbortSignal) => Promise<Release>;
  readonly used: number;
};

export function createGate(capacity: number): Gate {
  const bytes = new Semaphore({ permits: capacity });
  let requests = 0;
  return {
    get used() {
      return capacity - bytes.free;
    },
    async enter(wanted, signal) {
      // The semaphore is fair between workspaces. Each request counts as one of its own, so that all wait in one queue.
      const caller = { workspaceId: String(requests++), signal };
      const release = await bytes.acquire(caller, { permits: Math.min(wanted, capacity) }).catch((reason) => {
        throw signal.aborted ? new ClientLeft() : reason;
      });
      return release as Release; // undefined only with `maxWaiting` or a timeout
    },
  };
}
