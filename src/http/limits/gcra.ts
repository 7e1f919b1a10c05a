/**
 * Generic cell rate algorithm: one number per caller, the theoretical arrival time of its next request.
 * Pure; returns the new number when the request fits, or how long to wait. `nowMs` never goes back.
 */
export type Rate = { perSecond: number; burst: number };

export function gcra(arrivalMs: number | undefined, nowMs: number, rate: Rate): { next: number } | { waitMs: number } {
  const interval = 1000 / rate.perSecond;
  const tolerance = interval * Math.max(rate.burst - 1, 0);
  const arrival = Math.max(arrivalMs ?? nowMs, nowMs);
  if (arrival - tolerance > nowMs) return { waitMs: arrival - tolerance - nowMs };
  return { next: arrival + interval };
}
