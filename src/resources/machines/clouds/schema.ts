import { z } from "zod";
import { usdOf } from "../../../lib/money.ts";
import { DateTime, isoOrNull, later } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { type MachineRow, STATUSES } from "./table.ts";

export const Machine = later(() =>
  z
    .object({
      object: z.literal("machine"),
      id: z.string(),
      name: z.string().describe("As the commands of the cloud know it"),
      cloud: z.string(),
      region: z.string().describe("The id of its region"),
      status: z.enum(STATUSES),
      reason: z.string().nullable().describe("Why it ends or ended, or why it does not end"),
      address: z.string().nullable(),
      gpu_type: z.string(),
      gpu_count: z.int(),
      rate_usd_per_hour: z.number().describe("Price of all its devices"),
      uptime_seconds: z.number().describe("Time that is charged already"),
      cost_usd: z.number().describe("The charges of that time"),
      idle_since: DateTime.nullable().describe("Null: it has work"),
      created_at: DateTime,
      ready_at: DateTime.nullable(),
      ended_at: DateTime.nullable(),
    })
    .meta({ id: "Machine" }),
);
export type Machine = z.infer<typeof Machine>;

export const present = (row: MachineRow): Machine => ({
  object: "machine",
  id: row.id,
  name: row.name,
  cloud: row.cloud,
  region: row.regionId,
  status: row.status,
  reason: row.fault,
  address: row.address || null,
  gpu_type: row.gpuType,
  gpu_count: row.gpuCount,
  rate_usd_per_hour: usdOf(row.rateMicros),
  uptime_seconds: row.uptimeMs / 1000,
  cost_usd: usdOf(row.costMicros),
  idle_since: isoOrNull(row.status === "ready" ? row.idleSince : null),
  created_at: isoTime(row.createdAt),
  ready_at: isoOrNull(row.readyAt),
  ended_at: isoOrNull(row.endedAt),
});
