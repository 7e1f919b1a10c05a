import type { Ctx } from "../context.ts";
import { AppError } from "../lib/errors.ts";
import { gcra, type Rate } from "../lib/gcra.ts";
import { oncePer } from "../lib/once_per.ts";

export type RateLimiter = { spend: (caller: string) => void };

const FORGET_ABOVE = 10_000;

/** One limiter per server, in memory: a restart forgives at most one burst per key. */
export const rateLimiterOf = oncePer(({ config, clock }: Ctx) => {
  const { rate_limit_per_second: perSecond, rate_limit_burst: burst } = config.http;
  return createLimiter(clock, { perSecond, burst }, `More than ${perSecond} requests a second with this key`);
});

/** `message`: what a caller is told who comes too often. No rate, no limit. */
export function createLimiter(clock: Ctx["clock"], rate: Rate, message: string): RateLimiter {
  if (rate.perSecond === 0) return { spend: () => {} };
  const arrivals = new Map<string, number>();
  return {
    spend(caller) {
      const now = clock.now();
      const verdict = gcra(arrivals.get(caller), now, rate);
      if ("waitMs" in verdict)
        throw new AppError("rate_limited", message, { retryAfterSeconds: verdict.waitMs / 1000 });
      arrivals.set(caller, verdict.next);
      if (arrivals.size > FORGET_ABOVE) for (const [key, next] of arrivals) if (next < now) arrivals.delete(key);
    },
  };
}
