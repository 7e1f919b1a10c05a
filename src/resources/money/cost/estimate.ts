/** Estimates costs from the price file. Each part is rounded to micro-dollars before the sum. */
import { microsOf } from "../../../lib/money.ts";
import { MINUTE_MS } from "../../../lib/units.ts";
import { costOf } from "./charge.ts";
import { mustKnow, mustOffer, type Offers } from "./rates.ts";

export const DEFAULTS = { gpuType: "A100-80GB", gpuCount: 1, minutes: 60, markup: 1.3, days: 30, jobsPerDay: 1 };

const HOURS_PER_MONTH = 730; // the month of storage prices
const DAYS_PER_MONTH = 30;
const MINUTES_PER_MONTH = DAYS_PER_MONTH * 24 * 60;

export type Prices = { offers: Offers; diskGib: number };
/** `provider`: may be a plan of a provider, such as `aws:spot`. */
export type Workload = { provider: string; gpuType: string; gpuCount: number; minutes: number; markup: number };
export type Estimate = { costMicros: number; gpuMicros: number; storageMicros: number; overheadMicros: number };

export function estimate({ offers, diskGib }: Prices, workload: Workload): Estimate {
  const { offer, rate } = mustOffer(offers, workload.provider, workload.gpuType);
  const hours = workload.minutes / 60;
  const gpuMicros = costOf(rate * workload.gpuCount, workload.minutes * MINUTE_MS); // the same sum as the charge
  const gibMonths = (diskGib * workload.gpuCount * hours) / HOURS_PER_MONTH;
  const storageMicros = microsOf(offer.storageUsdPerGibMonth * gibMonths);
  const overheadMicros = Math.round(gpuMicros * offer.overheadShare);
  const costMicros = Math.round((gpuMicros + storageMicros + overheadMicros) * workload.markup);
  return { costMicros, gpuMicros, storageMicros, overheadMicros };
}

export type Month = { totalJobs: number; jobMicros: number; totalMicros: number; keepWarmMicros: number };

/** Thirty days of jobs, compared with keeping the same GPUs for all thirty days. */
export function monthOf(prices: Prices, workload: Workload, jobsPerDay: number): Month {
  const totalJobs = Math.round(jobsPerDay * DAYS_PER_MONTH);
  const jobMicros = estimate(prices, workload).costMicros;
  const warm = estimate(prices, { ...workload, minutes: MINUTES_PER_MONTH });
  return { totalJobs, jobMicros, totalMicros: totalJobs * jobMicros, keepWarmMicros: warm.costMicros };
}

/** The same workload with every provider and plan that has such a GPU. */
export function compare(prices: Prices, workload: Omit<Workload, "provider">): Map<string, number> {
  mustKnow(prices.offers, workload.gpuType);
  const offering = [...prices.offers].filter(([, { rates }]) => rates.has(workload.gpuType));
  return new Map(offering.map(([provider]) => [provider, estimate(prices, { ...workload, provider }).costMicros]));
}
