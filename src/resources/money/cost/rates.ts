/** Prices of an hour by provider, plan and GPU type, from the price file and the measurements of this machine. */
import { AppError } from "../../../lib/errors.ts";
import { microsOf } from "../../../lib/money.ts";
import { LOCAL, type Pricing } from "../../../lib/pricing.ts";

/** Facts of this machine. */
export type LocalFacts = {
  /** Measured watts of one device at work, by type. */
  watts: ReadonlyMap<string, number>;
  /** Dollars for an hour of any device, everything included; overrides the file unless null. 0: free. */
  fixedUsd: number | null;
};
/** The plan of this machine with the prices of the file. Offered if a fixed rate overrides them. */
const SHADOW = "shadow";
export const NOTHING_MEASURED: LocalFacts = { watts: new Map(), fixedUsd: null };

/** Micro-dollars for an hour of one device. Undefined if the provider is unknown or does not offer the device. */
export function rateMicros(
  pricing: Pricing,
  provider: string,
  gpuType: string,
  facts = NOTHING_MEASURED,
): number | undefined {
  if (provider === LOCAL) return localMicros(pricing.local, gpuType, facts);
  return offersOf(pricing, facts).get(provider)?.rates.get(gpuType);
}

function localMicros(local: Pricing["local"], type: string, { watts, fixedUsd }: LocalFacts): number {
  const fixed = fixedUsd ?? entryOf(local.rates, type);
  if (fixed !== undefined) return microsOf(fixed);
  const device = entryOf(local.devices, type) ?? local.other;
  const kilowatts = (watts.get(type) ?? device.watts) / 1000;
  return microsOf(kilowatts * local.tariff_usd_per_kwh + device.price_usd / local.lifetime_hours);
}

const entryOf = <T>(record: Record<string, T>, key: string): T | undefined =>
  Object.hasOwn(record, key) ? record[key] : undefined;

/** The prices of a provider, or of one of its plans. */
export type Offer = {
  provider: string;
  plan: string | null;
  /** Micro-dollars for an hour of one device. */
  rates: ReadonlyMap<string, number>;
  storageUsdPerGibMonth: number;
  overheadShare: number;
};
export type Offers = ReadonlyMap<string, Offer>;

/** This machine first, then the providers in the order of the file, each before its plans: `aws`, `aws:spot`. */
export function offersOf(pricing: Pricing, facts = NOTHING_MEASURED): Offers {
  const { local } = pricing;
  const listed = { ...facts, fixedUsd: null };
  const types = new Set([...Object.keys(local.devices), ...Object.keys(local.rates), ...facts.watts.keys()]);
  const offers = new Map<string, Offer>();
  const add = (provider: string, plan: string | null, rates: [string, number][], extras: Extras) =>
    offers.set(plan === null ? provider : `${provider}:${plan}`, {
      provider,
      plan,
      rates: new Map(rates),
      storageUsdPerGibMonth: extras.storage_usd_per_gib_month,
      overheadShare: extras.overhead_share,
    });
  const localRates = (of: LocalFacts) =>
    [...types].map((type): [string, number] => [type, localMicros(local, type, of)]);
  add(LOCAL, null, localRates(facts), facts.fixedUsd === null ? local : NO_EXTRAS);
  if (facts.fixedUsd !== null) add(LOCAL, SHADOW, localRates(listed), local);
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
const NO_EXTRAS: Extras = { storage_usd_per_gib_month: 0, overhead_share: 0 };

/** The key of the same offer with the prices of the file: what it would cost if no fixed rate overrode them. */
export const shadowOf = (offers: Offers, provider: string): string =>
  provider === LOCAL && offers.has(`${LOCAL}:${SHADOW}`) ? `${LOCAL}:${SHADOW}` : provider;

/** 422 with the available choices. */
export function mustOffer(offers: Offers, provider: string, gpuType: string): { offer: Offer; rate: number } {
  const offer = offers.get(provider);
  if (!offer)
    throw new AppError("schema", `provider: must be one of ${[...offers.keys()].join(", ")}, not ${quoted(provider)}`, {
      param: "provider",
    });
  mustKnow(offers, gpuType);
  const rate = offer.rates.get(gpuType);
  if (rate !== undefined) return { offer, rate };
  const others = [...offers].flatMap(([key, { plan, rates }]) => (plan === null && rates.has(gpuType) ? [key] : []));
  const message = `gpu_type: ${provider} offers ${[...offer.rates.keys()].join(", ")}; ${gpuType} is offered by ${others.join(", ")}`;
  throw new AppError("schema", message, { param: "gpu_type" });
}

export function mustKnow(offers: Offers, gpuType: string) {
  const types = new Set([...offers.values()].flatMap(({ rates }) => [...rates.keys()]));
  if (!types.has(gpuType))
    throw new AppError("schema", `gpu_type: must be one of ${[...types].join(", ")}, not ${quoted(gpuType)}`, {
      param: "gpu_type",
    });
}

const quoted = (text: string) => JSON.stringify(text.slice(0, 80));
