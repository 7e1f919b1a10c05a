/** From the price file and what was measured here to the price of an hour, by provider, plan and GPU type. */
import { AppError } from "../../lib/errors.ts";
import { microsOf } from "../../lib/money.ts";
import { LOCAL, type Pricing } from "../../lib/pricing/pricing.ts";

/** What only this machine knows. */
export type Here = {
  /** Watts of one device at work, by type, as measured. */
  watts: ReadonlyMap<string, number>;
  /** Dollars for an hour of any device, whatever the file says; null: as the file says. */
  fixedUsd: number | null;
};
export const NOTHING_MEASURED: Here = { watts: new Map(), fixedUsd: null };

/** Micro-dollars for an hour of one device; undefined: the provider is not known, or does not offer it. */
export function rateMicros(
  pricing: Pricing,
  provider: string,
  gpuType: string,
  here = NOTHING_MEASURED,
): number | undefined {
  if (provider === LOCAL) return localMicros(pricing.local, gpuType, here);
  return offersOf(pricing, here).get(provider)?.rates.get(gpuType);
}

function localMicros(local: Pricing["local"], type: string, { watts, fixedUsd }: Here): number {
  const named = fixedUsd ?? own(local.rates, type);
  if (named !== undefined) return microsOf(named);
  const device = own(local.devices, type) ?? local.other;
  const kilowatts = (watts.get(type) ?? device.watts) / 1000;
  return microsOf(kilowatts * local.tariff_usd_per_kwh + device.price_usd / local.lifetime_hours);
}

const own = <T>(record: Record<string, T>, key: string): T | undefined =>
  Object.hasOwn(record, key) ? record[key] : undefined;

/** What can be had under one key: a provider's own prices, or one of its plans. */
export type Offer = {
  provider: string;
  plan: string | null;
  /** Micro-dollars for an hour of one device. */
  rates: ReadonlyMap<string, number>;
  storageUsdPerGibMonth: number;
  overheadShare: number;
};
export type Offers = ReadonlyMap<string, Offer>;

/** This machine first, then the others as the file has them, each before its plans: `aws`, `aws:spot`. */
export function offersOf(pricing: Pricing, here = NOTHING_MEASURED): Offers {
  const { local } = pricing;
  const types = new Set([...Object.keys(local.devices), ...Object.keys(local.rates), ...here.watts.keys()]);
  const offers = new Map<string, Offer>();
  const add = (provider: string, plan: string | null, rates: [string, number][], extras: Extras) =>
    offers.set(plan === null ? provider : `${provider}:${plan}`, {
      provider,
      plan,
      rates: new Map(rates),
      storageUsdPerGibMonth: extras.storage_usd_per_gib_month,
      overheadShare: extras.overhead_share,
    });
  add(
    LOCAL,
    null,
    [...types].map((type) => [type, localMicros(local, type, here)]),
    local,
  );
  for (const [name, provider] of Object.entries(pricing.providers)) {
    const listed = Object.entries(provider.rates);
    for (const [plan, discount] of [[null, 0] as const, ...Object.entries(provider.discounts)])
      add(
        name,
        plan,
        listed.map(([type, usd]) => [type, microsOf(usd * (1 - discount))]),
        provider,
      );
  }
  return offers;
}
type Extras = { storage_usd_per_gib_month: number; overhead_share: number };

/** 422 with what there is instead. */
export function mustOffer(offers: Offers, provider: string, gpuType: string): { offer: Offer; rate: number } {
  const offer = offers.get(provider);
  if (!offer)
    throw new AppError("schema", `provider: expected one of ${[...offers.keys()].join(", ")}, not ${shown(provider)}`, {
      param: "provider",
    });
  mustKnow(offers, gpuType);
  const rate = offer.rates.get(gpuType);
  if (rate !== undefined) return { offer, rate };
  const others = [...offers].flatMap(([key, { plan, rates }]) => (plan === null && rates.has(gpuType) ? [key] : []));
  const message = `gpu_type: ${provider} has ${[...offer.rates.keys()].join(", ")}; ${gpuType} is with ${others.join(", ")}`;
  throw new AppError("schema", message, { param: "gpu_type" });
}

export function mustKnow(offers: Offers, gpuType: string) {
  const known = new Set([...offers.values()].flatMap(({ rates }) => [...rates.keys()]));
  if (!known.has(gpuType))
    throw new AppError("schema", `gpu_type: expected one of ${[...known].join(", ")}, not ${shown(gpuType)}`, {
      param: "gpu_type",
    });
}

const shown = (text: string) => JSON.stringify(text.slice(0, 80));
