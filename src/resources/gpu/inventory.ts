import type { Ctx } from "../../context.ts";
import { describeMachine, type Gpu, listGpus } from "../../platform/machine/hardware.ts";
import type { Device } from "./policy.ts";

/** A device with what its driver says of it. */
export type Seen = Device & {
  uuid: string | null;
  name: string;
  totalBytes: number;
  usedBytes: number;
  utilizationPercent: number | null;
  temperatureCelsius: number | null;
  powerWatts: number | null;
};

export type Probe = () => Promise<Gpu[]>;
/** Bytes leased on a device now, and whether one of its holders has yet to fill what it leased. */
export type Leased = (device: string) => { bytes: number; unsettled: boolean };

type Look = { devices: Seen[] | undefined; at: number; asking: Promise<void> | undefined; probe: Probe };

const FIGURES_MS = 2_000;
const PATIENCE_MS = 2_000; // a driver that hangs costs a caller this, and the last known figures
const MIB = 1_048_576;

const looks = new WeakMap<Ctx["db"], Look>();
const lookOf = (ctx: Ctx): Look => {
  const look = looks.get(ctx.db) ?? {
    devices: undefined,
    at: Number.NEGATIVE_INFINITY,
    asking: undefined,
    probe: listGpus,
  };
  looks.set(ctx.db, look);
  return look;
};

/** These are the cards from now on. */
export function probeWith(ctx: Ctx, probe: Probe) {
  looks.delete(ctx.db);
  lookOf(ctx).probe = probe;
}

/** As last seen, without waiting: none until the first look is over. What is older than two seconds is looked at anew. */
export function devicesKnown(ctx: Ctx, leased: Leased): Seen[] {
  const look = lookOf(ctx);
  if (isOld(ctx, look)) look.asking ??= ask(ctx, look, leased);
  return look.devices ?? [];
}

/** What is there, as last seen: at once when it was ever seen, while a new look is under way. */
export async function devicesSeen(ctx: Ctx, leased: Leased): Promise<Seen[]> {
  const look = lookOf(ctx);
  return look.devices === undefined ? await devicesFresh(ctx, leased) : devicesKnown(ctx, leased);
}

/** Not older than two seconds, unless the driver hangs. */
export async function devicesFresh(ctx: Ctx, leased: Leased): Promise<Seen[]> {
  const look = lookOf(ctx);
  if (isOld(ctx, look)) {
    look.asking ??= ask(ctx, look, leased);
    const answered = new AbortController();
    await Promise.race([look.asking, ctx.clock.sleep(PATIENCE_MS, answered.signal)]);
    answered.abort();
  }
  return look.devices ?? [mainMemory(ctx)];
}

const isOld = (ctx: Ctx, look: Look) => ctx.clock.now() - look.at >= FIGURES_MS;

async function ask(ctx: Ctx, look: Look, leased: Leased): Promise<void> {
  try {
    const before = new Map(look.devices?.map(({ id }) => [id, leased(id).bytes]));
    const gpus = await look.probe();
    const had = look.devices?.some(({ uuid }) => uuid !== null) ?? false;
    // Cards do not vanish: an empty answer after a good one is a driver in trouble.
    if (gpus.length > 0)
      look.devices = gpus.map((gpu) => seenGpu(ctx, gpu, foreignOf(gpu, look.devices, before, leased)));
    else if (!had) look.devices = [mainMemory(ctx)];
  } catch (error) {
    ctx.log.warn("the GPUs could not be listed", { error });
  }
  look.at = ctx.clock.now(); // after a failure too: a broken driver is not asked on every request
  look.asking = undefined;
}

/**
 * Used, less what we lease. A release during the look counts as if it came after. While a holder has not filled its
 * lease, foreign memory hides behind it, so the last figure stands.
 */
function foreignOf(gpu: Gpu, known: Seen[] | undefined, before: Map<string, number>, leased: Leased): number {
  const { bytes, unsettled } = leased(gpu.uuid);
  const now = Math.max(0, gpu.memoryUsedMib * MIB - Math.max(bytes, before.get(gpu.uuid) ?? 0));
  const last = known?.find(({ id }) => id === gpu.uuid)?.foreignBytes ?? 0;
  return unsettled ? Math.max(now, last) : now;
}

const seenGpu = (ctx: Ctx, gpu: Gpu, foreignBytes: number): Seen => ({
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

/** Without a GPU. Others' memory is not subtracted: the share leaves room for them, and weights are page cache. */
function mainMemory(ctx: Ctx): Seen {
  const { cpuModel, memoryTotalBytes, memoryFreeBytes } = describeMachine();
  const limit = process.constrainedMemory() || memoryTotalBytes; // a container's; 0 = none
  const totalBytes = Math.floor(Math.min(memoryTotalBytes, limit) * ctx.config.gpu.cpu_share);
  return {
    id: "cpu",
    index: 0,
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
  };
}
