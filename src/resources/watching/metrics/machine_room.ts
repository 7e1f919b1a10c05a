/** Metrics of devices, reserved memory, pending deliveries, credit, storage and the server process. */
import { statSync } from "node:fs";
import { join } from "node:path";
import type { Ctx } from "../../../context.ts";
import { usdOf } from "../../../lib/money.ts";
import { COMMIT, VERSION } from "../../../lib/version.ts";
import { descriptorsOf } from "../../../platform/machine/descriptors.ts";
import { freeBytes } from "../../../platform/machine/disk.ts";
import * as gpu from "../../machines/gpu/service.ts";
import { type Family, labelText } from "./prometheus.ts";
import { gauge, scoped, total, type View } from "./rows.ts";

/** The devices of the machine as they were last seen, as in GET /v1/gpu. A scrape does not wait for a driver. */
export function devices(ctx: Ctx): Family[] {
  const capacity = gauge("verk_gpu_memory_total_bytes", "Memory of a device; without a GPU, main memory for models");
  const used = gauge("verk_gpu_memory_used_bytes", "Memory in use, by any process");
  const busy = gauge("verk_gpu_utilization_ratio", "Share of the time that the device was busy, as its driver reports");
  const power = gauge("verk_gpu_power_watts", "Power that the device draws");
  const heat = gauge("verk_gpu_temperature_celsius", "Temperature of the device");
  for (const device of gpu.known(ctx)) {
    const labels = labelText({ device: device.id, type: device.type });
    capacity.put(labels, device.totalBytes);
    used.put(labels, device.usedBytes);
    busy.put(labels, device.utilizationPercent === null ? null : device.utilizationPercent / 100);
    power.put(labels, device.powerWatts);
    heat.put(labels, device.temperatureCelsius);
  }
  return [capacity, used, busy, power, heat];
}

type Lease = { workspace_id: string; device: string; kind: string; n: number; bytes: number };
const leased = scoped<Lease>(
  (where) => `SELECT workspace_id, device, kind, count(*) AS n, sum(bytes) AS bytes FROM gpu_leases
    WHERE 1 ${where} GROUP BY workspace_id, device, kind`,
);

export function leases({ db }: Pick<Ctx, "db">, view: View): Family[] {
  const count = gauge("verk_gpu_leases", "Reservations of device memory, by kind of holder");
  const size = gauge("verk_gpu_leased_bytes", "Device memory that is reserved");
  for (const { workspace_id: workspace, device, kind, n, bytes } of leased(db, view)) {
    const labels = labelText({ workspace, device, kind });
    count.put(labels, n);
    size.put(labels, bytes);
  }
  return [count, size];
}

type Machines = { workspace_id: string; cloud: string; status: string; n: number; stuck: number };
const liveMachines = scoped<Machines>(
  (where) => `SELECT workspace_id, cloud, status, count(*) AS n, sum(attempts > 0) AS stuck FROM machines
    WHERE ended_at IS NULL ${where} GROUP BY workspace_id, cloud, status`,
);

/** Machines that commands of the operator have made. */
export function machines({ db }: Pick<Ctx, "db">, view: View): Family[] {
  const count = gauge("verk_machines", "Machines of clouds that have not ended");
  const stuck = gauge("verk_machines_stuck", "Machines of clouds whose command `down` has failed");
  for (const { workspace_id: workspace, cloud, status, n, stuck: failed } of liveMachines(db, view)) {
    count.put(labelText({ workspace, cloud, status }), n);
    if (failed > 0) stuck.put(labelText({ workspace, cloud, status }), failed);
  }
  return [count, stuck];
}

/** Counting stops here: an endpoint that is down may have very many deliveries. */
export const MOST_PENDING = 100_000;
type Pending = { workspace_id: string; n: number };
const pending = scoped<Pending>(
  (where) => `SELECT e.workspace_id AS workspace_id, sum(d.n) AS n FROM (
      SELECT endpoint_id, count(*) AS n FROM (
        SELECT endpoint_id FROM webhook_deliveries INDEXED BY webhook_deliveries_next
        WHERE next_at IS NOT NULL ${where === "" ? "" : "AND endpoint_id IN (SELECT id FROM webhook_endpoints WHERE workspace_id = ?)"}
        LIMIT ${MOST_PENDING}
      ) GROUP BY endpoint_id
    ) AS d JOIN webhook_endpoints AS e ON e.id = d.endpoint_id GROUP BY e.workspace_id`,
);

export function deliveries({ db }: Pick<Ctx, "db">, view: View): Family[] {
  const waiting = gauge("verk_webhook_deliveries_pending", "Deliveries that wait for their next attempt");
  for (const { workspace_id: workspace, n } of pending(db, view)) waiting.put(labelText({ workspace }), n);
  return [waiting];
}

type Account = { workspace_id: string; name: string; balance_micros: number | null };
const accounts = scoped<Account>(
  (where) => `SELECT w.id AS workspace_id, w.name AS name, a.balance_micros AS balance_micros FROM workspaces AS w
    LEFT JOIN credit_accounts AS a ON a.workspace_id = w.id WHERE w.status <> 'deleted' ${where}`,
  "w.id",
);

export function balances({ db }: Pick<Ctx, "db">, view: View): Family[] {
  const about = gauge("verk_workspace_info", "Workspaces and their names");
  const balance = gauge("verk_balance_usd", "Credit that is left");
  for (const { workspace_id: workspace, name, balance_micros: micros } of accounts(db, view)) {
    about.put(labelText({ workspace, name }), 1);
    balance.put(labelText({ workspace }), micros === null ? null : usdOf(micros));
  }
  return [about, balance];
}

type StorageUse = { workspace_id: string; kind: string; bytes: number };
const storageUse = scoped<StorageUse>(
  (where) => `SELECT workspace_id, kind, bytes FROM storage_usage WHERE bytes <> 0 ${where}`,
);

export function storage({ db, config, state }: Pick<Ctx, "db" | "config" | "state">, view: View): Family[] {
  const used = gauge("verk_storage_bytes", "Content that a workspace stores, by kind");
  const free = gauge("verk_disk_free_bytes", "Free space on the disk of the data directory");
  for (const { workspace_id: workspace, kind, bytes } of storageUse(db, view))
    used.put(labelText({ workspace, kind }), bytes);
  const database = gauge("verk_database_bytes", "Size of the database and of its log of commits");
  const backup = gauge("verk_backup_timestamp_seconds", "When the newest scheduled backup was made");
  const log = gauge("verk_backup_log_timestamp_seconds", "Up to when changes are copied to the backups");
  if (view.workspaceId !== null) return [used];
  free.put("", freeBytes(config.data_dir));
  for (const [file, suffix] of [
    ["main", ""],
    ["log", "-wal"],
  ] as const)
    database.put(labelText({ file }), bytesOf(join(config.data_dir, `verk.db${suffix}`)));
  if (state.backup.lastAt !== undefined) backup.put("", state.backup.lastAt / 1000);
  if (state.backup.loggedAt !== undefined) log.put("", state.backup.loggedAt / 1000);
  return [used, free, database, backup, log];
}

const bytesOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

const STARTED_S = Math.round(Date.now() - process.uptime() * 1000) / 1000;

/** The server process alone, for the operator. Its workers appear in `verk_gpu_leases`. */
export function server(ctx: Ctx, { workspaceId }: View): Family[] {
  const build = gauge("verk_build_info", "The version that runs");
  const memory = gauge("process_resident_memory_bytes", "Memory of the server, without its workers");
  const cpu = total("process_cpu_seconds_total", "Processor time of the server since its start");
  const started = gauge("process_start_time_seconds", "Start time of the server, in seconds since 1970");
  const open = gauge("process_open_fds", "File descriptors that the server has open");
  const limit = gauge("process_max_fds", "File descriptors that the server may have open");
  const most = gauge(
    "verk_connections_max",
    "Highest descriptor of a connection; the others are for files and workers",
  );
  const refused = total("verk_connections_refused_total", "Connections that were refused because of that limit");
  if (workspaceId !== null) return [];
  const descriptors = descriptorsOf();
  const { connections } = ctx.state.http;
  if (descriptors) {
    open.put("", descriptors.used);
    if (Number.isFinite(descriptors.soft)) limit.put("", descriptors.soft);
  }
  if (connections) {
    most.put("", connections.most);
    refused.put("", connections.refused());
  }
  const { user, system } = process.cpuUsage();
  build.put(labelText({ version: VERSION, commit: COMMIT }), 1);
  memory.put("", process.memoryUsage.rss());
  cpu.put("", (user + system) / 1e6);
  started.put("", STARTED_S);
  return [build, memory, cpu, started, open, limit, most, refused];
}
