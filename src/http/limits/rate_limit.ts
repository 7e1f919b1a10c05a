import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { gcra, type Rate } from "./gcra.ts";

export type RateLimiter = {
  /** Throws 429 over the limit. */
  spend: (caller: string) => void;
  /** Spends too; false over the limit. */
  admits: (caller: string) => boolean;
};

const FORGET_ABOVE = 10_000;

/**
 * `message` is the error text of a call over the limit. A rate of 0 means no limit. The steady clock counts: a change of
 * the time of day neither refuses a caller nor gives it another burst.
 */
export function createLimiter(clock: Pick<Ctx["clock"], "steady">, rate: Rate, message: string): RateLimiter {
  if (rate.perSecond === 0) return { spend: () => {}, admits: () => true };
  const arrivals = new Map<string, number>();
  function waitOf(caller: string): number {
    const now = clock.steady();
    const verdict = gcra(arrivals.get(caller), now, rate);
    if ("waitMs" in verdict) return verdict.waitMs;
    arrivals.set(caller, verdict.next);
    if (arrivals.size > FORGET_ABOVE) for (const [key, next] of arrivals) if (next < now) arrivals.delete(key);
    return 0;
  }
  return {
    spend(caller) {
      const waitMs = waitOf(caller);
      if (waitMs > 0) throw new AppError("rate_limited", message, { retryAfterSeconds: waitMs / 1000 });
    },
    admits: (caller) => waitOf(caller) === 0,
  };
}
