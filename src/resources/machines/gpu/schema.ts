import { z } from "zod";
import { usdOf } from "../../../lib/money.ts";
import { DateTime, later } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import type { Offer } from "../../../platform/providers/types.ts";
import type { DeviceReading } from "./inventory.ts";
import { freeBytes, sizeOf } from "./policy.ts";
import type { LeaseRow, WaitRow } from "./table.ts";

export const GpuLease = later(() =>
  z
    .object({
      holder: z.string().nullable().describe("Id of the deployment or job; null if it belongs to another workspace"),
      kind: z.string(),
      bytes: z.int(),
      priority: z.int().nullable(),
      pinned: z.boolean().nullable(),
      idle_since: DateTime.nullable().describe(
        "Since when it is idle and may be parked to make room; null if it is busy or pinned",
      ),
      created_at: DateTime.nullable(),
    })
    .meta({ id: "GpuLease" }),
);
export type GpuLease = z.infer<typeof GpuLease>;

export const Gpu = later(() =>
  z
    .object({
      object: z.literal("gpu"),
      id: z.string().describe("The card's UUID; cpu for main memory, on a machine without a GPU"),
      index: z.int(),
      uuid: z.string().nullable(),
      type: z.string().describe("The same value as gpu.type of a deployment"),
      name: z.string(),
      memory_total_bytes: z.int(),
      memory_used_bytes: z.int().describe("Used by all programs, as the driver reports it"),
      memory_leased_bytes: z.int().describe("Reserved by this server for deployments and jobs"),
      utilization_percent: z.number().nullable(),
      temperature_celsius: z.number().nullable(),
      power_watts: z.number().nullable(),
      leases: z.array(GpuLease),
    })
    .meta({ id: "Gpu" }),
);
export type Gpu = z.infer<typeof Gpu>;

export const GpuAvailability = later(() =>
  z
    .object({
      object: z.literal("gpu_availability"),
      data: z.array(
        z.object({
          type: z.string(),
          total: z.int().describe("Devices"),
          available: z.int().describe("Devices with free memory: work on one device shares it"),
          memory_free_bytes: z.int().describe("Sum over all devices, without leases, other programs and the reserve"),
          largest_free_bytes: z.int().describe("The most that a request for one device can get now"),
        }),
      ),
      regions: z
        .array(
          z.object({
            region: z.string(),
            provider: z.string(),
            type: z.string(),
            total: z.int().describe("Devices"),
            memory_bytes: z.int().describe("Of one device; 0 if unknown"),
            rate_usd_per_hour: z.number().nullable().describe("Price of one device; null if it has none"),
          }),
        )
        .describe("Devices of other machines that answer now"),
      queue: z
        .array(
          z.object({
            holder: z
              .string()
              .nullable()
              .describe("Id of the deployment or job; null if it belongs to another workspace"),
            kind: z.string(),
            bytes: z.int(),
            reason: z.string(),
            since: DateTime,
          }),
        )
        .describe("Requests for memory, in the order in which they are granted"),
    })
    .meta({ id: "GpuAvailability" }),
);
export type GpuAvailability = z.infer<typeof GpuAvailability>;

/** One moment of the ledger, and the workspace that reads it. */
export type View = {
  reader: string;
  leases: readonly LeaseRow[];
  idle: ReadonlyMap<string, number>;
};

export function present(device: DeviceReading, { reader, leases, idle }: View): Gpu {
  const own = leases.filter((lease) => lease.device === device.id);
  return {
    object: "gpu",
    id: device.id,
    index: device.index,
    uuid: device.uuid,
    type: device.type,
    name: device.name,
    memory_total_bytes: device.totalBytes,
    memory_used_bytes: device.usedBytes,
    memory_leased_bytes: own.reduce((total, { bytes }) => total + bytes, 0),
    utilization_percent: device.utilizationPercent,
    temperature_celsius: device.temperatureCelsius,
    power_watts: device.powerWatts,
    leases: own.map((lease) => presentLease(lease, reader, idle)),
  };
}

/** Another workspace's lease shows only its memory: its ids and its times are private. */
function presentLease(lease: LeaseRow, reader: string, idle: ReadonlyMap<string, number>): GpuLease {
  const { kind, bytes } = lease;
  if (lease.workspaceId !== reader)
    return { holder: null, kind, bytes, priority: null, pinned: null, idle_since: null, created_at: null };
  const since = lease.pinned ? undefined : idle.get(lease.holder);
  return {
    holder: lease.holder,
    kind,
    bytes,
    priority: lease.priority,
    pinned: lease.pinned,
    idle_since: since === undefined ? null : isoTime(since),
    created_at: isoTime(lease.createdAt),
  };
}

export function presentAvailability(
  devices: readonly DeviceReading[],
  waits: readonly WaitRow[],
  { reader, leases, offers }: View & { offers: readonly Offer[] },
): GpuAvailability {
  const data = [...new Set(devices.map(({ type }) => type))].sort().map((type) => {
    const same = devices.filter((device) => device.type === type);
    const free = same.map((device) => freeBytes(leases, device));
    return {
      type,
      total: same.length,
      available: free.filter((bytes) => bytes > 0).length,
      memory_free_bytes: free.reduce((total, bytes) => total + bytes, 0),
      largest_free_bytes: Math.max(...free),
    };
  });
  const queue = waits.map(({ holder, kind, workspaceId, bytes, reason, createdAt }) => ({
    holder: workspaceId === reader ? holder : null,
    kind,
    bytes,
    reason: workspaceId === reader ? reason : `waits for ${sizeOf(bytes)}`, // the reason may name ids of the other workspace
    since: isoTime(createdAt),
  }));
  const regions = offers.map(({ region, provider, gpuType: type, gpuCount: total, memoryBytes, rateMicros }) => ({
    region,
    provider,
    type,
    total,
    memory_bytes: memoryBytes,
    rate_usd_per_hour: rateMicros === null ? null : usdOf(rateMicros),
  }));
  return { object: "gpu_availability", data, regions, queue };
}
