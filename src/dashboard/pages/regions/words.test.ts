import { expect, test } from "bun:test";
import type { GpuAvailability } from "../../../resources/machines/gpu/schema.ts";
import type { Region } from "../../../resources/machines/regions/schema.ts";
import { addressOf, devicesOf, priceOf, workOf } from "./words.ts";

const REGION: Region = {
  object: "region",
  id: "reg_1",
  name: "lab",
  provider: "ssh",
  available: true,
  reason: null,
  slurm: null,
  hardware: null,
  gpu_types: ["H200"],
  rate_usd_per_hour: 2.5,
  seen_at: null,
  created_at: "2026-01-01T00:00:00Z",
  ssh: {
    address: "lab.example",
    port: 22,
    user: "ada",
    ssh_key_id: "ssh_1",
    work_dir: "verk",
    host_key: "",
    host_key_fingerprint: "",
  },
};
const HERE: Region = { ...REGION, id: "local", name: "local", provider: "local", ssh: null, rate_usd_per_hour: null };

test("a region shows its devices, its price and its address", () => {
  const there = { region: "reg_1", provider: "ssh", rate_usd_per_hour: 2.5 };
  const availability: GpuAvailability = {
    object: "gpu_availability",
    data: [{ type: "cpu", total: 1, available: 1, memory_free_bytes: 0, largest_free_bytes: 0 }],
    regions: [
      { ...there, type: "H200", total: 2, memory_bytes: 141 * 2 ** 30 },
      { ...there, region: "reg_2", type: "A100", total: 8, memory_bytes: 0 },
    ],
    queue: [],
  };
  expect(devicesOf(REGION, availability)).toEqual(["2 × H200, 141 GiB each"]);
  expect(devicesOf({ ...REGION, id: "reg_2" }, availability)).toEqual(["8 × A100"]);
  expect(devicesOf(HERE, availability)).toEqual(["1 × cpu"]);
  expect(devicesOf(REGION, undefined)).toEqual(["H200"]);
  expect(devicesOf({ ...REGION, gpu_types: [] }, undefined)).toEqual(["–"]);
  expect([REGION, HERE, { ...REGION, rate_usd_per_hour: null }].map(priceOf)).toEqual([
    "$2.50 per hour",
    "as in the price list",
    "none",
  ]);
  expect([addressOf(REGION), addressOf(HERE)]).toEqual(["ada@lab.example:22", undefined]);
});

test("each region has its own work", () => {
  const job = { id: "job_1", output_name: "a", status: "running" as const, region: "reg_1" };
  const deployment = { id: "dep_1", name: "d", status: "serving" as const, parked: false, region: "local" };
  const work = { jobs: [job], deployments: [deployment] };
  expect(workOf("reg_1", work)).toEqual({ jobs: [job], deployments: [] });
  expect(workOf("local", work)).toEqual({ jobs: [], deployments: [deployment] });
});
