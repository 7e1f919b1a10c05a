import type { Ctx } from "../context.ts";
import { AppError } from "../lib/errors.ts";
import { gcra } from "../lib/gcra.ts";
import { oncePer } from "../lib/once_per.ts";

export type RateLimiter = { spend: (caller: string) => void };

const FORGET_ABOVE = 10_000;

/** One limiter per server, in memory: a restart forgives at most one burst per key. */
export const rateLimiterOf = oncePer(createLimiter);

function createLimiter({ config, clock }: Ctx): RateLimiter {
  const rate = { perSecond: config.http.rate_limit_per_second, burst: config.http.rate_limit_burst };
  if (rate.perSecond === 0) return { spend: () => {} };
  const arrivals = new Map<string, number>();
  return {
    spend(caller) {
      const now = clock.now();
      const verdict = gcra(arrivals.get(caller), now, rate);
      if ("waitMs" in verdict)
        throw new AppError("rate_limited", `More than ${rate.perSecond} requests a second with this key`, {
          retryAfterSeconds: verdict.waitMs / 1000,
        });
      arrivals.set(caller, verdict.next);
      if (arrivals.size > FORGET_ABOVE) for (const [key, next] of arrivals) if (next < now) arrivals.delete(key);
    },
  };
}
