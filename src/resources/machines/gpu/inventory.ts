import type { Ctx } from "../../../context.ts";
import { MIB } from "../../../lib/units.ts";
import { describeMachine, type Gpu, memoryLimitBytes } from "../../../platform/machine/hardware.ts";
import type { Device } from "./policy.ts";

/** A device with the figures of its driver. */
export type DeviceReading = Device & {
  uuid: string | null;
  name: string;
  totalBytes: number;
  usedBytes: number;
  utilizationPercent: number | null;
  temperatureCelsius: number | null;
  powerWatts: number | null;
};

export type Probe = () => Promise<Gpu[]>;
/** Bytes that are leased on a device now. `unsettled`: a holder has not filled its lease yet. */
export type Leased = (device: string) => { bytes: number; unsettled: boolean };

export type Inventory = {
  /** Undefined: the devices were never listed. */
  devices: DeviceReading[] | undefined;
  /** Time of the last listing, successful or not. */
  at: number;
  listing: Promise<void> | undefined;
  readonly probe: Probe;
};

export const newInventory = (probe: Probe): Inventory => ({
  devices: undefined,
  at: Number.NEGATIVE_INFINITY,
  listing: undefined,
  probe,
});

const FIGURES_MS = 2_000;
const DRIVER_TIMEOUT_MS = 2_000; // after this the caller gets the last known figures

/** From now on `probe` lists the cards, and nothing is known of them yet. */
export function probeWith(ctx: Ctx, probe: Probe) {
  ctx.state.gpu.inventory = newInventory(probe);
}

/** The last figures, at once: none before the first listing. Figures older than two seconds start a new listing. */
export function devicesKnown(ctx: Ctx, leased: Leased): DeviceReading[] {
  const { inventory } = ctx.state.gpu;
  if (isOld(ctx, inventory)) inventory.listing ??= listDevices(ctx, inventory, leased);
  return inventory.devices ?? [];
}

/** The last figures, at once; waits only for the first listing. */
export async function devicesSeen(ctx: Ctx, leased: Leased): Promise<DeviceReading[]> {
  const { inventory } = ctx.state.gpu;
  return inventory.devices === undefined ? await devicesFresh(ctx, leased) : devicesKnown(ctx, leased);
}

/** Figures that are at most two seconds old, unless the driver hangs. */
export async function devicesFresh(ctx: Ctx, leased: Leased): Promise<DeviceReading[]> {
  const { inventory } = ctx.state.gpu;
  if (isOld(ctx, inventory)) {
    inventory.listing ??= listDevices(ctx, inventory, leased);
    const answered = new AbortController();
    await Promise.race([inventory.listing, ctx.clock.sleep(DRIVER_TIMEOUT_MS, answered.signal)]);
    answered.abort();
  }
  return inventory.devices ?? mainMemory(ctx);
}

const isOld = (ctx: Ctx, inventory: Inventory) => ctx.clock.now() - inventory.at >= FIGURES_MS;

async function listDevices(ctx: Ctx, inventory: Inventory, leased: Leased): Promise<void> {
  try {
    const before = new Map(inventory.devices?.map(({ id }) => [id, leased(id).bytes]));
    const gpus = await inventory.probe();
    const had = inventory.devices?.some(({ uuid }) => uuid !== null) ?? false;
    // Cards do not vanish: an empty list after a good one is an error of the driver.
    if (gpus.length > 0)
      inventory.devices = gpus.map((gpu) => readingOf(ctx, gpu, foreignOf(gpu, inventory.devices, before, leased)));
    else if (!had) inventory.devices = mainMemory(ctx);
  } catch (error) {
    ctx.log.warn("the GPUs could not be listed", { error });
  }
  inventory.at = ctx.clock.now(); // after a failure too: a broken driver is not called on every request
  inventory.listing = undefined;
}

/**
 * Used memory less our leases. A release during the listing counts as if it came after. While a holder has not filled
 * its lease, foreign memory cannot be seen, so the last figure is kept.
 */
function foreignOf(
  gpu: Gpu,
  readings: DeviceReading[] | undefined,
  before: Map<string, number>,
  leased: Leased,
): number {
  const { bytes, unsettled } = leased(gpu.uuid);
  const now = Math.max(0, gpu.memoryUsedMib * MIB - Math.max(bytes, before.get(gpu.uuid) ?? 0));
  const last = readings?.find(({ id }) => id === gpu.uuid)?.foreignBytes ?? 0;
  return unsettled ? Math.max(now, last) : now;
}

const readingOf = (ctx: Ctx, gpu: Gpu, foreignBytes: number): DeviceReading => ({
  id: gpu.uuid,
  index: gpu.index,
  uuid: gpu.uuid,
  type: gpu.type,
  name: gpu.name,
  totalBytes: gpu.memoryTotalMib * MIB,
  usedBytes: gpu.memoryUsedMib * MIB,
  capacityBytes: Math.max(0, (gpu.memoryTotalMib - ctx.config.gpu.reserve_mib) * MIB),
  foreignBytes,
  utilizationPercent: gpu.utilizationPercent,
  temperatureCelsius: gpu.temperatureCelsius,
  powerWatts: gpu.powerWatts,
});

/**
 * For a machine without a GPU: one device, or the equal parts of `gpu.cpu_devices`. Memory of other programs is not
 * subtracted: `gpu.cpu_share` leaves room for it.
 */
function mainMemory(ctx: Ctx): DeviceReading[] {
  const { cpuModel, memoryTotalBytes, memoryFreeBytes } = describeMachine();
  const { cpu_share, cpu_devices } = ctx.config.gpu;
  const totalBytes = Math.floor((memoryLimitBytes() * cpu_share) / cpu_devices);
  return Array.from({ length: cpu_devices }, (_, index) => ({
    id: index === 0 ? "cpu" : `cpu-${index}`,
    index,
    uuid: null,
    type: "cpu",
    name: cpuModel,
    totalBytes,
    usedBytes: Math.min(totalBytes, memoryTotalBytes - memoryFreeBytes),
    capacityBytes: totalBytes,
    foreignBytes: 0,
    utilizationPercent: null,
    temperatureCelsius: null,
    powerWatts: null,
  }));
}
