/** Current prices: from the price file, and for this machine from the measured power of its GPUs. */
import type { Ctx } from "../../../context.ts";
import { usdOf } from "../../../lib/money.ts";
import { offersIn } from "../../machines/regions/service.ts";
import { isCloud } from "../../machines/regions/table.ts";
import * as energy from "../energy/service.ts";
import { compare as compareAll, DEFAULTS, estimate, monthOf, type Prices } from "./estimate.ts";
import { type LocalFacts, type Offer, offersOf, rateMicros, shadowOf } from "./rates.ts";
import { type CompareQuery, type EstimateQuery, type MonthQuery, presentEstimate, presentMonth } from "./schema.ts";

type Priced = Pick<Ctx, "config" | "pricing" | "db">;

function localFacts(ctx: Priced): LocalFacts {
  const { local_rate_usd_per_hour: fixed } = ctx.config.billing;
  return { watts: energy.measuredWatts(ctx), fixedUsd: fixed < 0 ? null : fixed };
}

/** With the regions of the workspace that have a price, as `ssh:reg_…`, and clouds by their name. */
const pricesOf = (ctx: Priced, workspaceId: string): Prices => ({
  offers: new Map([...offersOf(ctx.pricing, localFacts(ctx)), ...regionOffers(ctx, workspaceId)]),
  diskGib: ctx.pricing.disk_gib,
});

function regionOffers(ctx: Priced, workspaceId: string): [string, Offer][] {
  const priced = offersIn(ctx, workspaceId).filter(({ rateMicros }) => rateMicros !== null);
  return [...Map.groupBy(priced, ({ provider, region }) => `${provider}:${region}`)].map(([key, offers]) => {
    const rates = new Map(offers.map(({ gpuType, rateMicros }) => [gpuType, rateMicros ?? 0]));
    const provider = offers[0]?.provider ?? key;
    const extras = { storageUsdPerGibMonth: 0, overheadShare: 0 }; // the price of the region includes everything
    // A cloud has one region in a workspace, so its name is enough. It replaces the list price of that name.
    return [isCloud(provider) ? provider : key, { provider, plan: null, rates, ...extras }];
  });
}

/** Micro-dollars for an hour of one device; 0: free; null: unknown. */
export const rateFor = (ctx: Priced, provider: string, gpuType: string): number | null =>
  rateMicros(ctx.pricing, provider, gpuType, localFacts(ctx)) ?? null;

/** Micro-dollars for an hour of one device by the price file, also if this machine is free or has a fixed rate. */
export function listedRates(ctx: Priced): (provider: string, gpuType: string) => number {
  const facts = { ...localFacts(ctx), fixedUsd: null };
  return (provider, gpuType) => rateMicros(ctx.pricing, provider, gpuType, facts) ?? 0;
}

export function estimateFor(ctx: Priced, workspaceId: string, query: EstimateQuery) {
  const { provider = ctx.pricing.default_provider, markup } = query;
  const workload = { ...hardwareOf(query), provider, minutes: query.duration_minutes, markup };
  const prices = pricesOf(ctx, workspaceId);
  const shadow = estimate(prices, { ...workload, provider: shadowOf(prices.offers, provider) });
  return presentEstimate(workload, estimate(prices, workload), shadow.costMicros);
}

export function projectMonth(ctx: Priced, workspaceId: string, query: MonthQuery) {
  const { provider = ctx.pricing.default_provider, avg_duration_minutes: minutes } = query;
  const workload = { ...hardwareOf(query), provider, minutes, markup: DEFAULTS.markup };
  return presentMonth(monthOf(pricesOf(ctx, workspaceId), workload, query.jobs_per_day));
}

export function compare(ctx: Priced, workspaceId: string, query: CompareQuery): Record<string, number> {
  const workload = { ...hardwareOf(query), minutes: query.duration_minutes, markup: DEFAULTS.markup };
  return dollars(compareAll(pricesOf(ctx, workspaceId), workload));
}

const hardwareOf = (query: { gpu_type: string; gpu_count: number }) => ({
  gpuType: query.gpu_type,
  gpuCount: query.gpu_count,
});

/** Without plans, which `compare` shows. */
export function rates(ctx: Priced, workspaceId: string): Record<string, Record<string, number>> {
  const listed = [...pricesOf(ctx, workspaceId).offers].filter(([, { plan }]) => plan === null);
  return Object.fromEntries(listed.map(([provider, offer]) => [provider, dollars(offer.rates)]));
}

const dollars = (micros: ReadonlyMap<string, number>) =>
  Object.fromEntries([...micros].map(([key, amount]) => [key, usdOf(amount)]));
