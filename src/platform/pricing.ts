import { readFileSync } from "node:fs";
import DEFAULT_PRICING from "../../config/pricing.toml" with { type: "text" };
import { UsageError } from "../lib/errors.ts";
import { type Pricing, parsePricing } from "../lib/pricing.ts";

export type { Pricing } from "../lib/pricing.ts";

/** The prices this program comes with, as a file. */
export const defaultPricing = (): string => DEFAULT_PRICING;

/** `file`: the operator's own, instead of ours; empty = ours. A mistake in it names its key. */
export function loadPricing(file: string): Pricing {
  if (file === "") return parsePricing(DEFAULT_PRICING, "the prices of this program");
  try {
    return parsePricing(readFileSync(file, "utf8"), file);
  } catch (cause) {
    if (cause instanceof UsageError) throw cause;
    const why = (cause as { code?: string }).code === "ENOENT" ? "there is no such file" : String(cause);
    throw new UsageError(`Cannot read the prices ${file} (billing.pricing_file): ${why}`, 2, { cause });
  }
}
