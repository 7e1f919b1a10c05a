/** What a stretch of use costs, to the last micro-dollar: however it is cut into stretches, the sum is the same. */
const HOUR_MS = 3_600_000;

export type Stretch = {
  /** Micro-dollars for an hour; null: free. */
  ratePerHourMicros: number | null;
  ms: number;
  /** Owed from the stretch before and less than a micro-dollar, in micro-dollars × ms of an hour. */
  remainder: number;
};
export type Price = { micros: number; remainder: number };

/** Whole numbers throughout: an hour of the dearest machine times a year of milliseconds is beyond what a double holds. */
export function priceOf({ ratePerHourMicros, ms, remainder }: Stretch): Price {
  const owed = BigInt(ratePerHourMicros ?? 0) * BigInt(Math.max(0, Math.round(ms))) + BigInt(remainder);
  return { micros: Number(owed / BigInt(HOUR_MS)), remainder: Number(owed % BigInt(HOUR_MS)) };
}

/** In micro-dollars, rounded: for estimates, and for what is not charged yet. */
export const costOf = (ratePerHourMicros: number | null, ms: number): number =>
  Math.round(((ratePerHourMicros ?? 0) * Math.max(0, ms)) / HOUR_MS);
