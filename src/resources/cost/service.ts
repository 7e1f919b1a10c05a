/** Prices in force: those of the file, and of this machine by what its cards were measured to draw. */
import type { Ctx } from "../../context.ts";
import { usdOf } from "../../lib/money.ts";
import * as energy from "../energy/service.ts";
import { compare as compareAll, DEFAULTS, estimate, monthOf, type Prices } from "./estimate.ts";
import { type Here, offersOf, rateMicros } from "./rates.ts";
import { type CompareQuery, type EstimateQuery, type MonthQuery, presentEstimate, presentMonth } from "./schema.ts";

type Priced = Pick<Ctx, "config" | "pricing" | "db">;

function hereOf(ctx: Priced): Here {
  const { local_rate_usd_per_hour: fixed } = ctx.config.billing;
  return { watts: energy.measuredWatts(ctx), fixedUsd: fixed < 0 ? null : fixed };
}

const pricesOf = (ctx: Priced): Prices => ({
  offers: offersOf(ctx.pricing, hereOf(ctx)),
  diskGib: ctx.pricing.disk_gib,
});

/** Micro-dollars for an hour of one device; null: free, or nobody's. */
export const rateFor = (ctx: Priced, provider: string, gpuType: string): number | null =>
  rateMicros(ctx.pricing, provider, gpuType, hereOf(ctx)) || null;

export function estimateFor(ctx: Priced, query: EstimateQuery) {
  const { provider = ctx.pricing.default_provider, markup } = query;
  const wish = { ...hardwareOf(query), provider, minutes: query.duration_minutes, markup };
  return presentEstimate(wish, estimate(pricesOf(ctx), wish));
}

export function projectMonth(ctx: Priced, query: MonthQuery) {
  const { provider = ctx.pricing.default_provider, avg_duration_minutes: minutes } = query;
  const wish = { ...hardwareOf(query), provider, minutes, markup: DEFAULTS.markup };
  return presentMonth(monthOf(pricesOf(ctx), wish, query.jobs_per_day));
}

export function compare(ctx: Priced, query: CompareQuery): Record<string, number> {
  const wish = { ...hardwareOf(query), minutes: query.duration_minutes, markup: DEFAULTS.markup };
  return dollars(compareAll(pricesOf(ctx), wish));
}

const hardwareOf = (query: { gpu_type: string; gpu_count: number }) => ({
  gpuType: query.gpu_type,
  gpuCount: query.gpu_count,
});

/** Plans are left to `compare`. */
export function rates(ctx: Priced): Record<string, Record<string, number>> {
  const listed = [...pricesOf(ctx).offers].filter(([, { plan }]) => plan === null);
  return Object.fromEntries(listed.map(([provider, offer]) => [provider, dollars(offer.rates)]));
}

const dollars = (micros: ReadonlyMap<string, number>) =>
  Object.fromEntries([...micros].map(([key, amount]) => [key, usdOf(amount)]));
