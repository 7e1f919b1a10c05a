/** What something would cost: sums over the price file. All parts are whole micro-dollars before they are added. */
import { microsOf } from "../../lib/money.ts";
import { mustKnow, mustOffer, type Offers } from "./rates.ts";

export const DEFAULTS = { gpuType: "A100-80GB", gpuCount: 1, minutes: 60, markup: 1.3, days: 30, jobsPerDay: 1 };

const HOURS_PER_MONTH = 730; // as storage is sold
const DAYS_PER_MONTH = 30;
const MINUTES_PER_MONTH = DAYS_PER_MONTH * 24 * 60;

export type Prices = { offers: Offers; diskGib: number };
/** `provider`: also a plan of one, `aws:spot`. */
export type Wish = { provider: string; gpuType: string; gpuCount: number; minutes: number; markup: number };
export type Estimate = { costMicros: number; gpuMicros: number; storageMicros: number; overheadMicros: number };

export function estimate({ offers, diskGib }: Prices, wish: Wish): Estimate {
  const { offer, rate } = mustOffer(offers, wish.provider, wish.gpuType);
  const hours = wish.minutes / 60;
  const gpuMicros = Math.round(rate * wish.gpuCount * hours);
  const gibMonths = (diskGib * wish.gpuCount * hours) / HOURS_PER_MONTH;
  const storageMicros = microsOf(offer.storageUsdPerGibMonth * gibMonths);
  const overheadMicros = Math.round(gpuMicros * offer.overheadShare);
  const costMicros = Math.round((gpuMicros + storageMicros + overheadMicros) * wish.markup);
  return { costMicros, gpuMicros, storageMicros, overheadMicros };
}

export type Month = { totalJobs: number; jobMicros: number; totalMicros: number; keepWarmMicros: number };

/** Thirty days of jobs, and beside it what it costs to hold the same GPUs for all of them. */
export function monthOf(prices: Prices, wish: Wish, jobsPerDay: number): Month {
  const totalJobs = Math.round(jobsPerDay * DAYS_PER_MONTH);
  const jobMicros = estimate(prices, wish).costMicros;
  const warm = estimate(prices, { ...wish, minutes: MINUTES_PER_MONTH });
  return { totalJobs, jobMicros, totalMicros: totalJobs * jobMicros, keepWarmMicros: warm.costMicros };
}

/** The same wish with everybody who has such a GPU, plans included. */
export function compare(prices: Prices, wish: Omit<Wish, "provider">): Map<string, number> {
  mustKnow(prices.offers, wish.gpuType);
  const offering = [...prices.offers].filter(([, { rates }]) => rates.has(wish.gpuType));
  return new Map(offering.map(([provider]) => [provider, estimate(prices, { ...wish, provider }).costMicros]));
}
