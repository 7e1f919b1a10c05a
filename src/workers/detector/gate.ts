/**
 * Limits the bytes of pixels in memory. Requests wait in order, so that small images do not starve a large one. One
 * image may use the whole limit, never more.
 */
import { ClientLeft } from "../../lib/net/client_left.ts";

type Waiting = { amount: number; admit: () => void };

export type Gate = {
  /** Returns the release function, which must be called once. */
  enter: (amount: number, signal: AbortSignal) => Promise<() => void>;
  readonly used: number;
};

export function createGate(capacity: number): Gate {
  const queue: Waiting[] = [];
  let used = 0;
  const advance = () => {
    for (let first = queue[0]; first && used + first.amount <= capacity; first = queue[0]) {
      queue.shift();
      used += first.amount;
      first.admit();
    }
  };
  return {
    get used() {
      return used;
    },
    async enter(wanted, signal) {
      const amount = Math.min(wanted, capacity);
      const entered = Promise.withResolvers<void>();
      const waiting: Waiting = { amount, admit: entered.resolve };
      const leave = () => {
        const at = queue.indexOf(waiting);
        if (at < 0) return;
        queue.splice(at, 1);
        entered.reject(new ClientLeft());
        advance();
      };
      if (signal.aborted) throw new ClientLeft();
      signal.addEventListener("abort", leave, { once: true });
      queue.push(waiting);
      advance();
      await entered.promise.finally(() => signal.removeEventListener("abort", leave));
      return () => {
        used -= amount;
        advance();
      };
    },
  };
}
