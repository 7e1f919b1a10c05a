/** The price of a stretch of use in whole micro-dollars. Cutting a stretch into several does not change the sum. */
import { HOUR_MS } from "../../../lib/units.ts";

export type Stretch = {
  /** Micro-dollars for an hour; null: free. */
  ratePerHourMicros: number | null;
  ms: number;
  /** Less than a micro-dollar, owed from the stretch before, in micro-dollars × ms of an hour. */
  remainder: number;
};
export type Price = { micros: number; remainder: number };

/** Uses BigInt: the highest rate times the milliseconds of a year does not fit into a double. */
export function priceOf({ ratePerHourMicros, ms, remainder }: Stretch): Price {
  const owed = BigInt(ratePerHourMicros ?? 0) * BigInt(Math.max(0, Math.round(ms))) + BigInt(remainder);
  return { micros: Number(owed / BigInt(HOUR_MS)), remainder: Number(owed % BigInt(HOUR_MS)) };
}

/** In micro-dollars, rounded. For estimates and for use that is not charged yet. */
export const costOf = (ratePerHourMicros: number | null, ms: number): number =>
  Math.round(((ratePerHourMicros ?? 0) * Math.max(0, ms)) / HOUR_MS);
