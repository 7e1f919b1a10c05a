/** Chooses where a job runs: the region or provider that the request names, or else the cheapest that fits. Pure. */

import { formatBytes } from "../../lib/bytes.ts";
import { usdOf } from "../../lib/money.ts";
import type { Need, Offer } from "./types.ts";

export type PlacementRequest = { region?: string | undefined; provider?: string | undefined };

/** `reason`: one sentence for the record of the job. */
export type Placement =
  | { offer: Offer; reason: string }
  | { offer: undefined; param: "/region" | "/provider" | "/gpu"; message: string };

export function place(offers: readonly Offer[], need: Need, { region, provider }: PlacementRequest): Placement {
  const regions = [...new Set(offers.map((offer) => offer.region))];
  if (region !== undefined && !regions.includes(region))
    return { offer: undefined, param: "/region", message: `there is no region ${region}: use ${regions.join(", ")}` };
  const inRegion = offers.filter((offer) => region === undefined || offer.region === region);
  const providers = [...new Set(inRegion.map((offer) => offer.provider))];
  if (provider !== undefined && !providers.includes(provider)) {
    const message = `no region of the provider ${provider} can be used: use ${providers.join(", ")}, or leave it out`;
    return { offer: undefined, param: "/provider", message };
  }
  const allowed = inRegion.filter((offer) => provider === undefined || offer.provider === provider);
  const fitting = allowed.filter((offer) => fits(offer, need)).toSorted(byPrice);
  const [best] = fitting;
  if (!best) return { offer: undefined, param: "/gpu", message: `no region that may be used has ${describe(need)}` };
  return { offer: best, reason: reasonFor(best, fitting, { region, provider }) };
}

/** A request without a GPU type takes any device. An unknown amount of memory is no obstacle. */
export const fits = (offer: Offer, { gpuType, gpuCount, memoryBytes }: Need): boolean =>
  (gpuType === undefined || offer.gpuType === gpuType) &&
  offer.gpuCount >= gpuCount &&
  (offer.memoryBytes === 0 || offer.memoryBytes >= memoryBytes);

/** This machine comes first among equals: nothing is copied. A region without a price comes last: it may be dear. */
function byPrice(a: Offer, b: Offer): number {
  const unpriced = Number(a.rateMicros === null) - Number(b.rateMicros === null);
  const price = (a.rateMicros ?? 0) - (b.rateMicros ?? 0);
  const near = Number(b.provider === "local") - Number(a.provider === "local");
  return unpriced || price || near || (a.region < b.region ? -1 : Number(a.region > b.region));
}

function reasonFor(best: Offer, fitting: readonly Offer[], { region, provider }: PlacementRequest): string {
  if (region !== undefined) return `The request names the region ${region}`;
  const named = provider === undefined ? "" : ` of the provider ${provider}, which the request names,`;
  const regions = new Set(fitting.map((offer) => offer.region)).size;
  if (regions === 1) return `${best.region} is the only region${named} that fits`;
  if (best.rateMicros === null)
    return `${best.region} is the first of ${regions} regions${named} that fit: none has a price`;
  const price = `${usdOf(best.rateMicros).toFixed(2)} USD an hour`;
  return `${best.region} is the cheapest of ${regions} regions${named} that fit: ${price}`;
}

function describe({ gpuType, gpuCount, memoryBytes }: Need): string {
  const device = gpuType === undefined ? "a device" : `${gpuCount} of type ${gpuType}`;
  return memoryBytes === 0 ? device : `${device} with ${formatBytes(memoryBytes)} of memory`;
}
