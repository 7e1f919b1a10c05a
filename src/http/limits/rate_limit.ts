import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { oncePer } from "../../lib/once_per.ts";
import { gcra, type Rate } from "./gcra.ts";

export type RateLimiter = {
  /** Throws when it is too often. */
  spend: (caller: string) => void;
  /** Spends too; false when it is too often. */
  admits: (caller: string) => boolean;
};

const FORGET_ABOVE = 10_000;

/** One limiter per server, in memory: a restart forgives at most one burst per key. */
export const rateLimiterOf = oncePer(({ config, clock }: Ctx) => {
  const { rate_limit_per_second: perSecond, rate_limit_burst: burst } = config.http;
  return createLimiter(clock, { perSecond, burst }, `More than ${perSecond} requests a second with this key`);
});

/**
 * Calls with a key that is known and refused: each that this admits writes one row of the audit log. Enough to show that
 * somebody still tries it, and on whatever http.rate_limit_per_second says.
 */
export const refusedKeyLimiterOf = oncePer(({ clock }: Ctx) =>
  createLimiter(clock, { perSecond: 1 / 6, burst: 10 }, "This key is refused"),
);

/** `message`: what a caller is told who comes too often. No rate, no limit. */
export function createLimiter(clock: Ctx["clock"], rate: Rate, message: string): RateLimiter {
  if (rate.perSecond === 0) return { spend: () => {}, admits: () => true };
  const arrivals = new Map<string, number>();
  function waitOf(caller: string): number {
    const now = clock.now();
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
