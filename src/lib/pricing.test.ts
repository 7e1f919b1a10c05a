import { expect, test } from "bun:test";
import { UsageError } from "./errors.ts";
import { parsePricing } from "./pricing.ts";

const LOCAL = `
[local]
tariff_usd_per_kwh = 0.2
lifetime_hours = 10_000
other = { watts = 100, price_usd = 0 }
[local.devices]
H100 = { watts = 500, price_usd = 20_000 }
`;
const file = (head = 'default_provider = "local"\ndisk_gib = 10\n', tail = "") => head + LOCAL + tail;

function faultOf(text: string): string {
  try {
    parsePricing(text, "p.toml");
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
  return "none";
}

test("a short file is enough: omitted prices are zero", () => {
  const pricing = parsePricing(file(), "p.toml");
  expect(pricing.providers).toEqual({});
  expect(pricing.local).toMatchObject({ storage_usd_per_gib_month: 0, overhead_share: 0, rates: {} });
});

test("prices of tokens are zero where the file has none", () => {
  expect(parsePricing(file(), "p.toml").tokens).toEqual({ prompt_usd: 0, cached_usd: 0, completion_usd: 0 });
  const some = parsePricing(file(undefined, "[tokens]\nprompt_usd = 0.5\ncached_usd = 0.05"), "p.toml");
  expect(some.tokens).toEqual({ prompt_usd: 0.5, cached_usd: 0.05, completion_usd: 0 });
});

test.each([
  ["no TOML", "a = = 1", /^p\.toml: .*Expected a value/],
  [
    "a rate that is no number",
    file(undefined, '[providers.x]\nrates = { H100 = "4" }'),
    'p.toml: providers.x.rates.H100: must be a number, not "4"',
  ],
  [
    "a negative rate",
    file(undefined, "[providers.x]\nrates = { H100 = -1 }"),
    /^p\.toml: providers\.x\.rates\.H100: must be at least 0, not -1$/,
  ],
  [
    "an endless rate",
    file(undefined, "[providers.x]\nrates = { H100 = inf }"),
    /^p\.toml: providers\.x\.rates\.H100: /,
  ],
  [
    "a provider without rates",
    file(undefined, "[providers.x]\nrates = {}"),
    "p.toml: providers.x.rates: names no GPU type",
  ],
  [
    "a discount of more than all",
    file(undefined, "[providers.x]\nrates = { H100 = 1 }\ndiscounts = { spot = 1.5 }"),
    /^p\.toml: providers\.x\.discounts\.spot: /,
  ],
  [
    "a known type, misspelt",
    file(undefined, '[providers.x]\nrates = { "a100_80gb" = 1 }'),
    "p.toml: providers.x.rates.a100_80gb: this type is written A100-80GB",
  ],
  [
    "an unknown key",
    file(undefined, "[providers.x]\nrate = { H100 = 1 }\nrates = { H100 = 1 }"),
    "p.toml: unknown key providers.x.rate. Did you mean rates?",
  ],
  ["a key that is missing", file('default_provider = "local"\n'), "p.toml: disk_gib is missing"],
  [
    "a default nobody is",
    file('default_provider = "mars"\ndisk_gib = 1\n'),
    'p.toml: default_provider: expected one of local, not "mars"',
  ],
  [
    "this machine among the providers",
    file(undefined, "[providers.local]\nrates = { H100 = 1 }"),
    "p.toml: providers.local: this machine has a section of its own: [local]",
  ],
  ["a lifetime of nothing", file().replace("10_000", "0"), /^p\.toml: local\.lifetime_hours: /],
])("%s is reported with its key", (_name, text, words) => {
  if (words instanceof RegExp) expect(faultOf(text)).toMatch(words);
  else expect(faultOf(text)).toBe(words);
});
