import { expect, test } from "bun:test";
import { AppError } from "../../../lib/errors.ts";
import { parsePricing } from "../../../lib/pricing.ts";
import { compare, estimate, monthOf } from "./estimate.ts";
import { NOTHING_MEASURED, offersOf, rateMicros } from "./rates.ts";

const PRICING = parsePricing(
  `
default_provider = "acme"
disk_gib = 73
[local]
tariff_usd_per_kwh = 0.2
lifetime_hours = 10_000
storage_usd_per_gib_month = 0.1
other = { watts = 250, price_usd = 1_000 }
[local.devices]
cpu = { watts = 100, price_usd = 500 }
H100 = { watts = 500, price_usd = 20_000 }
[local.rates]
L40S = 0.75
[providers.acme]
rates = { "A100-80GB" = 2.0, H100 = 4.0 }
discounts = { spot = 0.5 }
storage_usd_per_gib_month = 0.1
overhead_share = 0.05
`,
  "test",
);
const prices = { offers: offersOf(PRICING), diskGib: PRICING.disk_gib };
const WORKLOAD = { provider: "acme", gpuType: "A100-80GB", gpuCount: 1, minutes: 60, markup: 1.3 };

test("an hour of one: rate, disk for an hour of 730, five percent, all times the markup", () => {
  // 2.00 + 0.1 × 73 / 730 = 0.01 + 0.10; 2.11 × 1.3 = 2.743
  expect(estimate(prices, WORKLOAD)).toEqual({
    gpuMicros: 2_000_000,
    storageMicros: 10_000,
    overheadMicros: 100_000,
    costMicros: 2_743_000,
  });
});

test("count and time multiply every part", () => {
  // 8 × 1.5 h: 24.00, 0.12, 1.20; 25.32 × 1 = 25.32
  const cost = estimate(prices, { ...WORKLOAD, gpuCount: 8, minutes: 90, markup: 1 });
  expect(cost).toEqual({ gpuMicros: 24e6, storageMicros: 120_000, overheadMicros: 1_200_000, costMicros: 25_320_000 });
  expect(estimate(prices, { ...WORKLOAD, minutes: 0 }).costMicros).toBe(0);
  expect(estimate(prices, { ...WORKLOAD, markup: 0 }).costMicros).toBe(0);
});

test("parts are whole micro-dollars, and the whole is their sum", () => {
  // a second: 2 / 3600 = 555.6 → 556; disk 0.01 / 3600 = 2.8 → 3; 5 % of 556 = 27.8 → 28; 587 × 1.3 = 763.1 → 763
  expect(estimate(prices, { ...WORKLOAD, minutes: 1 / 60 })).toEqual({
    gpuMicros: 556,
    storageMicros: 3,
    overheadMicros: 28,
    costMicros: 763,
  });
});

test("this machine: kilowatts × tariff + price / lifetime", () => {
  // 0.5 × 0.2 + 20000 / 10000 = 2.10; 0.1 × 0.2 + 500 / 10000 = 0.07; not listed: 0.25 × 0.2 + 0.1 = 0.15
  expect(rateMicros(PRICING, "local", "H100")).toBe(2_100_000);
  expect(rateMicros(PRICING, "local", "cpu")).toBe(70_000);
  expect(rateMicros(PRICING, "local", "RTX-4090")).toBe(150_000);
  expect(rateMicros(PRICING, "local", "L40S")).toBe(750_000);
});

test("measured watts replace those of the file, a fixed rate replaces everything", () => {
  // 0.3 × 0.2 + 2 = 2.06; 0.4 × 0.2 + 0.1 = 0.18
  const watts = new Map([
    ["H100", 300],
    ["RTX-4090", 400],
  ]);
  expect(rateMicros(PRICING, "local", "H100", { watts, fixedUsd: null })).toBe(2_060_000);
  expect(rateMicros(PRICING, "local", "RTX-4090", { watts, fixedUsd: null })).toBe(180_000);
  expect(rateMicros(PRICING, "local", "H100", { watts, fixedUsd: 0 })).toBe(0);
  expect([...(offersOf(PRICING, { watts, fixedUsd: null }).get("local")?.rates.keys() ?? [])]).toEqual([
    "cpu",
    "H100",
    "L40S",
    "RTX-4090",
  ]);
});

test("providers have the prices of the file, plans have less", () => {
  expect(rateMicros(PRICING, "acme", "H100")).toBe(4_000_000);
  expect(rateMicros(PRICING, "acme:spot", "H100")).toBe(2_000_000);
  expect(rateMicros(PRICING, "acme", "MI300X")).toBeUndefined();
  expect(rateMicros(PRICING, "mars", "H100")).toBeUndefined();
  expect(rateMicros(PRICING, "toString", "H100", NOTHING_MEASURED)).toBeUndefined();
});

test("a month is thirty days of jobs; keeping the GPUs is 720 hours of them", () => {
  // 2.743 × 90 = 246.87; (1440 + 7.2 + 72) × 1.3 = 1974.96
  expect(monthOf(prices, WORKLOAD, 3)).toEqual({
    totalJobs: 90,
    jobMicros: 2_743_000,
    totalMicros: 246_870_000,
    keepWarmMicros: 1_974_960_000,
  });
  expect(monthOf(prices, WORKLOAD, 0.5).totalJobs).toBe(15);
});

test("a comparison has every provider that offers the GPU, with its plans", () => {
  // local (2.1 + 0.01) × 1.3 = 2.743; acme (4 + 0.01 + 0.2) × 1.3 = 5.473; spot (2 + 0.01 + 0.1) × 1.3 = 2.743
  const costs = compare(prices, { gpuType: "H100", gpuCount: 1, minutes: 60, markup: 1.3 });
  expect([...costs]).toEqual([
    ["local", 2_743_000],
    ["acme", 5_473_000],
    ["acme:spot", 2_743_000],
  ]);
});

test.each([
  ["provider", { provider: "mars" }, 'provider: must be one of local, acme, acme:spot, not "mars"'],
  ["gpu_type", { gpuType: "B9" }, 'gpu_type: must be one of cpu, H100, L40S, A100-80GB, not "B9"'],
  ["gpu_type", { gpuType: "L40S" }, "gpu_type: acme offers A100-80GB, H100; L40S is offered by local"],
])("an unknown %s is refused with the known ones", (param, more, words) => {
  try {
    estimate(prices, { ...WORKLOAD, ...more });
    expect.unreachable();
  } catch (error) {
    expect(error).toBeInstanceOf(AppError);
    expect(error).toMatchObject({ code: "schema", status: 422, param, message: words });
  }
});
