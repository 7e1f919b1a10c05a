import { expect, test } from "bun:test";
import type { Gpu } from "../../resources/machines/gpu/schema.ts";
import { freeOf, named, segmentsOf, waitingOf } from "./gpu_map.ts";

const GIB = 2 ** 30;
const JOB = "job_01m7fxkzpq86kvjr5hr1qsnmh7";
const names = new Map([[JOB, { name: "sums", href: "/runs/x" }]]);
const lease = { priority: 0, pinned: false, idle_since: null, created_at: null };
const gpu: Gpu = {
  object: "gpu",
  id: "GPU-1",
  index: 0,
  uuid: "GPU-1",
  type: "h200",
  name: "NVIDIA H200",
  memory_total_bytes: 100 * GIB,
  memory_used_bytes: 70 * GIB,
  memory_leased_bytes: 60 * GIB,
  utilization_percent: 1,
  temperature_celsius: 2,
  power_watts: 3,
  leases: [
    { ...lease, holder: JOB, kind: "training_job", bytes: 40 * GIB },
    { ...lease, holder: null, kind: "deployment", bytes: 20 * GIB },
  ],
};

test("a card has one segment for each lease and one for other programs", () => {
  const segments = segmentsOf(gpu, names);
  expect(segments.map(({ label, share }) => [label, share])).toEqual([
    ["sums · 40 GiB", 0.4],
    ["another workspace · 20 GiB", 0.2],
    ["other programs · 10 GiB", 0.1],
  ]);
  expect(segments[0]).toMatchObject({ href: "/runs/x", detail: "sums: training, 40 GiB" });
  expect(freeOf(gpu)).toBe(30 * GIB);
});

test("two deployments on one card have two shades of a colour", () => {
  const replicas = ["dep_1", "dep_2"].map((holder) => ({ ...lease, holder, kind: "deployment" as const, bytes: GIB }));
  const colours = segmentsOf({ ...gpu, leases: replicas }, names).map(({ colour }) => colour);
  expect(colours).toEqual(["var(--c3)", "color-mix(in oklab, var(--c3) 80%, var(--text))", "var(--c5)"]);
});

test("a replica has the name of its deployment", () => {
  const deployments = new Map([["dep_1", { name: "support", href: undefined }]]);
  const held = (holder: string) => ({ ...lease, holder, kind: "deployment", bytes: GIB });
  const segments = segmentsOf({ ...gpu, leases: [held("dep_1/1"), held("dep_1/2")] }, deployments);
  expect(segments.slice(0, 2).map(({ label }) => label)).toEqual(["support · 1 GiB", "support (replica 2) · 1 GiB"]);
});

test("main memory counts leases alone: other programs are not ours to count", () => {
  const cpu = { ...gpu, uuid: null };
  expect(segmentsOf(cpu, names)).toHaveLength(2);
  expect(freeOf(cpu)).toBe(40 * GIB);
});

test("reasons name jobs and deployments, not ids", () => {
  expect(named(`waits for 2 GiB: held by ${JOB}`, names)).toBe("waits for 2 GiB: held by sums");
  const queue = [{ holder: null, kind: "training_job", bytes: 1, reason: "waits", since: "2026-01-01T00:00:00Z" }];
  expect(waitingOf({ object: "gpu_availability", data: [], regions: [], queue }, names)[0]?.holder.name).toBe(
    "another workspace",
  );
});
