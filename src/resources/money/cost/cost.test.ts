import { afterEach, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { manyApps, tempDir } from "../../../../test/harness.ts";
import { write } from "../../../platform/db/db.ts";
import { powerReadings } from "../energy/table.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

/** Prices that can be reckoned with in the head. */
const FILE = `
default_provider = "acme"
disk_gib = 73
[local]
tariff_usd_per_kwh = 0.2
lifetime_hours = 10_000
other = { watts = 250, price_usd = 1_000 }
[local.devices]
cpu = { watts = 100, price_usd = 500 }
"A100-80GB" = { watts = 400, price_usd = 9_200 }
[providers.acme]
rates = { "A100-80GB" = 2.0, H100 = 4.0 }
discounts = { spot = 0.5 }
storage_usd_per_gib_month = 0.1
overhead_share = 0.05
`;

/** Charges this machine by the price file. */
const BY_LIST = { "billing.local_rate_usd_per_hour": -1 };

function priced(text = FILE, flags: Record<string, unknown> = {}) {
  const dir = tempDir();
  const file = join(dir, "pricing.toml");
  writeFileSync(file, text);
  const app = open({ dir, flags: { "billing.pricing_file": file, ...BY_LIST, ...flags } });
  return { app, get: async (path: string) => (await app.call("GET", `/v1/cost/${path}`)).body };
}

test("an estimate without parameters is an hour of one A100-80GB with the default provider, times 1.3", async () => {
  const { get } = priced();
  const hour = {
    object: "cost_estimate",
    cost_usd: 2.743,
    gpu_cost_usd: 2,
    storage_cost_usd: 0.01,
    overhead_cost_usd: 0.1,
    duration_seconds: 3600,
    gpu_type: "A100-80GB",
    gpu_count: 1,
    provider: "acme",
    markup_multiplier: 1.3,
    shadow_cost_usd: 2.743,
  };
  expect(await get("estimate")).toEqual(hour);
  // half of 4.00 for the plan: 2 × 2 × 0.5 h = 2.00; 0.1 × 73 × 2 × 0.5 / 730 = 0.01; 5 % = 0.10
  expect(await get("estimate?gpu_type=H100&gpu_count=2&duration_minutes=30&markup=1&provider=acme:spot")).toEqual({
    ...hour,
    cost_usd: 2.11,
    gpu_cost_usd: 2,
    storage_cost_usd: 0.01,
    overhead_cost_usd: 0.1,
    duration_seconds: 1800,
    gpu_type: "H100",
    gpu_count: 2,
    provider: "acme:spot",
    markup_multiplier: 1,
    shadow_cost_usd: 2.11,
  });
});

test("a month, a comparison and the rates", async () => {
  const { get } = priced();
  expect(await get("monthly_projection?jobs_per_day=3&avg_duration_minutes=60")).toEqual({
    object: "cost_projection",
    total_jobs: 90,
    avg_cost_per_job_usd: 2.743,
    total_monthly_usd: 246.87,
    keep_warm_monthly_usd: 1974.96,
  });
  expect((await get("monthly_projection")).total_jobs).toBe(30);
  // local: 0.4 × 0.2 + 9200 / 10000 = 1.00, without disk and overhead; spot: 1 + 0.01 + 0.05 = 1.06; each times 1.3
  expect(await get("compare")).toEqual({ local: 1.3, acme: 2.743, "acme:spot": 1.378 });
  expect(await get("compare?gpu_type=H100&gpu_count=2&duration_minutes=30")).toEqual({
    acme: 5.473,
    "acme:spot": 2.743,
  });
  expect(await get("rates")).toEqual({ local: { cpu: 0.07, "A100-80GB": 1 }, acme: { "A100-80GB": 2, H100: 4 } });
});

test("changing a rate of the file changes the answers", async () => {
  const { get } = priced(FILE.replace('"A100-80GB" = 2.0', '"A100-80GB" = 3.0'));
  expect(await get("estimate")).toMatchObject({ gpu_cost_usd: 3, overhead_cost_usd: 0.15, cost_usd: 4.108 });
  expect((await get("rates")).acme["A100-80GB"]).toBe(3);
  expect((await get("compare")).acme).toBe(4.108);
});

test("the built-in prices have the six types and this machine", async () => {
  const app = open({ flags: BY_LIST });
  const rates = (await app.call("GET", "/v1/cost/rates")).body;
  const six = ["A100-40GB", "A100-80GB", "H100", "H200", "L40S", "MI300X"];
  expect(Object.keys(rates.local)).toEqual(["cpu", ...six]);
  expect(Object.keys(rates.oracle)).toEqual(six);
  for (const listed of Object.values<Record<string, number>>(rates))
    for (const rate of Object.values(listed)) expect(rate).toBeGreaterThan(0);
  expect(rates.local).toEqual({
    cpu: 0.057808, // 0.1 × 0.15 + 1500 / 35040
    "A100-40GB": 0.316849, // 0.4 × 0.15 + 9000 / 35040
    "A100-80GB": 0.488082, // 0.4 × 0.15 + 15000 / 35040
    H100: 0.904087, // 0.7 × 0.15 + 28000 / 35040
    H200: 1.018242, // 0.7 × 0.15 + 32000 / 35040
    L40S: 0.280811, // 0.35 × 0.15 + 8000 / 35040
    MI300X: 0.540582, // 0.75 × 0.15 + 15000 / 35040
  });
  // (rate + 5 % of it + 100 GiB of disk / 730) × 1.3
  expect((await app.call("GET", "/v1/cost/compare")).body).toEqual({
    local: 0.698313,
    aws: 4.697562, // 3.431 + 0.17155 + 0.010959
    "aws:spot": 2.121739, // 1.54395 + 0.077198 + 0.010959
    "aws:reserved_1y": 3.526734, // 2.57325 + 0.128663 + 0.010959
    "aws:reserved_3y": 2.590071, // 1.88705 + 0.094353 + 0.010959
    azure: 5.031454, // 3.673 + 0.18365 + 0.013699
    "azure:spot": 2.023267, // 1.4692 + 0.07346 + 0.013699
    "azure:reserved_1y": 3.52736, // 2.5711 + 0.128555 + 0.013699
    "azure:reserved_3y": 2.524631, // 1.8365 + 0.091825 + 0.013699
    oracle: 5.467569, // 4 + 0.2 + 0.005822
    "oracle:preemptible": 2.737569, // 2 + 0.1 + 0.005822
    lambda: 2.847516, // 2.06 + 0.103 + 0.027397
    "lambda:reserved_1y": 2.285136, // 1.648 + 0.0824 + 0.027397
    runpod: 1.915159, // 1.39 + 0.0695 + 0.013699
    "runpod:community": 1.478768, // 1.0703 + 0.053515 + 0.013699
  });
  // 0.4 × 0.15 + 15000 / 35040 = 0.488082; disk 0.2 / 730 = 0.000274; a tenth; times 1.3
  expect((await app.call("GET", "/v1/cost/estimate")).body).toMatchObject({
    provider: "local",
    gpu_cost_usd: 0.488082,
    storage_cost_usd: 0.000274,
    overhead_cost_usd: 0.048808,
    cost_usd: 0.698313,
  });
});

const REFUSED = [
  ["estimate?provider=mars", "provider", "must be one of local, acme, acme:spot"],
  ["estimate?gpu_type=B9", "gpu_type", "must be one of cpu, A100-80GB, H100"],
  ["estimate?gpu_type=cpu", "gpu_type", "acme offers A100-80GB, H100; cpu is offered by local"],
  ["compare?gpu_type=B9", "gpu_type", "must be one of cpu, A100-80GB, H100"],
  ["monthly_projection?provider=mars", "provider", "must be one of local"],
  ["estimate?gpu_count=0", "gpu_count", "at least 1"],
  ["estimate?gpu_count=1.5", "gpu_count", "must be a whole number"],
  ["estimate?gpu_count=1e9", "gpu_count", "must be a number"],
  ["estimate?gpu_count=100000", "gpu_count", "at most 1024"],
  ["estimate?gpu_count=", "gpu_count", "must be a number"],
  ["estimate?duration_minutes=-1", "duration_minutes", "at least 0"],
  ["estimate?duration_minutes=999999999", "duration_minutes", "at most 527040"],
  ["estimate?markup=-0.1", "markup", "at least 0"],
  ["estimate?markup=NaN", "markup", "must be a number"],
  ["monthly_projection?jobs_per_day=-3", "jobs_per_day", "at least 0"],
  ["summary?days=0", "days", "at least 1"],
  ["by_gpu?days=99999", "days", "at most 3650"],
] as const;
test("unknown, negative and absurd values are refused with the name and the allowed values", async () => {
  const { app } = priced();
  for (const [path, param, words] of REFUSED) {
    const { status, body } = await app.call("GET", `/v1/cost/${path}`);
    expect([path, status, body.error.param]).toEqual([path, 422, param]);
    expect(body.error.message).toContain(words);
  }
});

test("a broken file stops the start with the name of its key", () => {
  expect(() => priced(FILE.replace("H100 = 4.0", 'H100 = "four"'))).toThrow(
    /pricing\.toml: providers\.acme\.rates\.H100: must be a number, not "four"/,
  );
  expect(() => open({ flags: { "billing.pricing_file": "/nowhere/p.toml" } })).toThrow(
    /billing\.pricing_file.*no such file/,
  );
});

test("the price of this machine follows the measured power of its GPUs, or the setting", async () => {
  const { app, get } = priced();
  const reading = { gpuType: "A100-80GB", energyJoules: 180_000, workMs: 600_000, updatedAt: 0 }; // 300 W
  write(app.ctx.db, (tx) => tx.insert(powerReadings).values(reading).run());
  expect((await get("rates")).local["A100-80GB"]).toBe(0.98);
  const fixed = priced(FILE, { "billing.local_rate_usd_per_hour": 36 });
  expect((await fixed.get("rates")).local).toEqual({ cpu: 36, "A100-80GB": 36 });
});

test("F3 free local use: this machine costs nothing by default, and answers have its shadow price", async () => {
  const app = open();
  const get = async (path: string) => (await app.call("GET", `/v1/cost/${path}`)).body;
  const free = await get("estimate");
  const parts = { gpu_cost_usd: 0, storage_cost_usd: 0, overhead_cost_usd: 0 };
  expect(free).toMatchObject({ provider: "local", cost_usd: 0, ...parts, shadow_cost_usd: 0.698313 });
  expect(await get("compare")).toMatchObject({ local: 0, "local:shadow": 0.698313, aws: 4.697562 });
  const listed = await get("estimate?provider=local:shadow");
  expect(listed).toMatchObject({ provider: "local:shadow", cost_usd: 0.698313, gpu_cost_usd: 0.488082 });
  const { local } = await get("rates");
  expect(new Set(Object.values(local))).toEqual(new Set([0]));
});
