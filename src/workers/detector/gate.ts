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
  const bytes = Semaphore.unshared("the server lets files in by fair turns", { permits: capacity });
  return {
    get used() {
      return capacity - bytes.free;
    },
    async enter(wanted, signal) {
      const caller = { workspaceId: "", signal };
      const release = await bytes.acquire(caller, { permits: Math.min(wanted, capacity) }).catch((reason) => {
        throw signal.aborted ? new ClientLeft() : reason;
      });
      return release as Release; // undefined only with a timeout
    },
  };
}
