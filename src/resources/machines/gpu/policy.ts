/**
 * Decides which request gets memory on which device. Pure: the same ledger and request give the same answer.
 *
 * The queue is fair and does not block small work. A request may overtake a waiter that is ahead of it (of higher
 * priority, or of the same and older) only if the waiter still fits once all leases that it found have ended. That is
 * the case if, on some device, pinned leases, leases that overtook it and this one leave enough bytes. So large work
 * waits only for leases that are older than itself.
 */
export type Device = {
  /** The card's UUID, or "cpu", "cpu-1" … */
  id: string;
  index: number;
  type: string;
  /** Memory that may be leased, foreign memory included. */
  capacityBytes: number;
  /** Memory that other programs hold on the device. */
  foreignBytes: number;
};

export type Lease = {
  holder: string;
  device: string;
  workspaceId: string;
  bytes: number;
  priority: number;
  pinned: boolean;
  createdAt: number;
  /** Main memory of the holder; 0 on its other devices, and where the device is main memory. */
  mainBytes?: number;
};

export type Request = {
  holder: string;
  kind: string;
  workspaceId: string;
  /** The sum over all its devices. */
  bytes: number;
  /** Main memory that a holder of GPUs needs beside them. Absent: it is not counted. */
  mainBytes?: number;
  /** Absent or null: any type. */
  gpuType?: string | null;
  gpuCount: number;
  /** Higher goes first. */
  priority: number;
  /** Never evicted. */
  pinned: boolean;
  /** Idle holders may be evicted for it. */
  mayEvict: boolean;
  /** Only on the devices of this holder, whose process it joins. */
  beside?: string;
  /** Only on this device. */
  device?: string;
  /** Prefers devices with the fewest other holders of this name (`name/1`, `name/2`), then those with the most room. */
  spreads?: string;
};

export type Waiter = Pick<Request, "holder" | "workspaceId" | "bytes" | "gpuType" | "gpuCount" | "priority"> & {
  createdAt: number;
};

export type Ledger = {
  devices: readonly Device[];
  leases: readonly Lease[];
  waits: readonly Waiter[];
  /** Holders that do nothing and may be parked, and since when (epoch ms). */
  idle: ReadonlyMap<string, number>;
  /** Main memory that holders of GPUs may lease together. */
  mainCapacityBytes?: number;
};

export type Placement =
  | { outcome: "granted"; devices: Device[] }
  | { outcome: "evict"; holders: string[]; devices: Device[] }
  | { outcome: "wait"; reason: string }
  | { outcome: "never"; reason: string };

type Choice = { device: Device; free: number; evict: Lease[] };

export function place(ledger: Ledger, request: Request): Placement {
  const offered = ledger.devices.filter((device) => isOffered(ledger, device, request));
  const impossible = whyNever(offered, request);
  if (impossible) return { outcome: "never", reason: impossible };
  const lacking = whyNoMainMemory(ledger, request);
  if (lacking) return lacking;
  const share = shareOf(request);
  const devices = offered.filter((device) => fitsType(device, request));
  const ahead = ledger.waits.filter((wait) => isAhead(wait, ledger.waits, request));
  let stoppedBy: Waiter | undefined;
  for (const evicts of request.mayEvict ? [false, true] : [false]) {
    const choices = devices.flatMap((device) => {
      const choice = choose(ledger, device, request, share);
      return choice && (evicts || choice.evict.length === 0) ? [choice] : [];
    });
    for (const chosen of candidates(choices, request.gpuCount, orderFor(ledger, request))) {
      const taken = chosen.map((each) => each.device);
      const holders = [...new Set(chosen.flatMap((each) => each.evict.map((lease) => lease.holder)))];
      const leases = ledger.leases.filter(({ holder }) => !holders.includes(holder));
      const blocker = ahead.find((wait) => wouldDelay({ ...ledger, leases }, wait, taken, share));
      stoppedBy ??= blocker;
      if (blocker) continue;
      return holders.length === 0
        ? { outcome: "granted", devices: taken }
        : { outcome: "evict", holders, devices: taken };
    }
  }
  return { outcome: "wait", reason: stoppedBy ? behind(stoppedBy, request) : heldBy(ledger, devices, request) };
}

const isOffered = ({ leases }: Ledger, device: Device, { beside, device: only }: Request) =>
  (only === undefined || only === device.id) &&
  (beside === undefined || on(leases, device).some(({ holder }) => holder === beside));

const shareOf = ({ bytes, gpuCount }: Pick<Request, "bytes" | "gpuCount">) => Math.ceil(bytes / gpuCount);

const fitsType = (device: Device, { gpuType }: Pick<Request, "gpuType">) =>
  gpuType === undefined || gpuType === null || device.type.toLowerCase() === gpuType.toLowerCase();

const sum = (leases: readonly Lease[]) => leases.reduce((total, lease) => total + lease.bytes, 0);
const on = (leases: readonly Lease[], device: Device) => leases.filter((lease) => lease.device === device.id);

/** Bytes for one more lease. Never negative: a measured lease may be larger than its estimate. */
export const freeBytes = (leases: readonly Lease[], device: Device) =>
  Math.max(0, device.capacityBytes - device.foreignBytes - sum(on(leases, device)));

function whyNever(devices: readonly Device[], request: Request): string | undefined {
  const able = devices.filter((device) => fitsType(device, request));
  const types = [...new Set(devices.map((device) => device.type))].sort();
  if (able.length === 0) return `This machine has no GPU of type ${request.gpuType}, only ${types.join(", ")}`;
  const share = shareOf(request);
  const largest = Math.max(...able.map((device) => device.capacityBytes));
  if (share > largest)
    return `Needs ${sizeOf(share)} on ${request.gpuCount > 1 ? "each device" : "one device"}, and the largest of ${types.join(", ")} can give ${sizeOf(largest)}`;
  const most = Math.max(...types.map((type) => able.filter((d) => d.type === type && d.capacityBytes >= share).length));
  if (request.gpuCount > most)
    return `Needs ${request.gpuCount} equal devices, and this machine has ${most} that can give ${sizeOf(share)}`;
  return undefined;
}

/** Main memory is not a device of a machine with GPUs. Its holders are few, and none of them is idle. */
function whyNoMainMemory({ leases, mainCapacityBytes = 0 }: Ledger, request: Request): Placement | undefined {
  const { mainBytes = 0 } = request;
  if (mainBytes === 0) return undefined;
  if (mainBytes > mainCapacityBytes)
    return {
      outcome: "never",
      reason: `Needs ${sizeOf(mainBytes)} of main memory, and this machine can give ${sizeOf(mainCapacityBytes)}`,
    };
  const free = mainCapacityBytes - leases.reduce((total, lease) => total + (lease.mainBytes ?? 0), 0);
  if (mainBytes <= free) return undefined;
  const reason = `waits for ${sizeOf(mainBytes)} of main memory, of which ${sizeOf(Math.max(0, free))} are free`;
  return { outcome: "wait", reason };
}

/** The leases to evict from this device so that `share` fits; undefined: it would not fit even then. */
function choose({ leases, idle }: Ledger, device: Device, request: Request, share: number): Choice | undefined {
  const free = freeBytes(leases, device);
  if (free >= share) return { device, free, evict: [] };
  const gives = on(leases, device)
    .filter((lease) => idle.has(lease.holder) && !lease.pinned && lease.priority <= request.priority)
    .sort((a, b) => (idle.get(a.holder) ?? 0) - (idle.get(b.holder) ?? 0) || (a.holder < b.holder ? -1 : 1));
  // Not from `free`, which is never negative: leases may exceed the capacity after corrections.
  const evict = fewest(gives, share - (device.capacityBytes - device.foreignBytes - sum(on(leases, device))));
  return evict && { device, free, evict };
}

/** The smallest set that frees `need` bytes; of several, the one that is idle longest, which `gives` is sorted by. */
function fewest(gives: readonly Lease[], need: number): Lease[] | undefined {
  const largest = (from: readonly Lease[], count: number) =>
    sum([...from].sort((a, b) => b.bytes - a.bytes).slice(0, count));
  let count = 0;
  while (largest(gives, count) < need) if (++count > gives.length) return undefined;
  const chosen: Lease[] = [];
  for (const [i, lease] of gives.entries()) {
    const left = need - sum(chosen) - lease.bytes;
    if (largest(gives.slice(i + 1), count - chosen.length - 1) < left) continue;
    chosen.push(lease);
    if (chosen.length === count) break;
  }
  return chosen;
}

type Order = (a: Choice, b: Choice) => number;

/** Fewest evictions, then the tightest fit. A request that spreads: farthest from its like, then the most room. */
function orderFor({ leases }: Ledger, { spreads }: Request): Order {
  const alike = ({ device }: Choice) =>
    on(leases, device).filter(({ holder }) => holder.startsWith(`${spreads}/`)).length;
  const byRoom: Order = (a, b) => (spreads === undefined ? a.free - b.free : alike(a) - alike(b) || b.free - a.free);
  return (a, b) => a.evict.length - b.evict.length || byRoom(a, b) || a.device.index - b.device.index;
}

/** Ways to take `count` devices of one type, best first. */
function candidates(choices: readonly Choice[], count: number, order: Order): Choice[][] {
  if (count === 1) return [...choices].sort(order).map((choice) => [choice]);
  const ways = [...new Set(choices.map(({ device }) => device.type))].flatMap((type) => {
    const same = choices.filter(({ device }) => device.type === type).sort(order);
    return same.length < count ? [] : [same.slice(0, count)];
  });
  const cost = (way: Choice[]) => way.reduce((total, { evict }) => total + evict.length, 0);
  const room = (way: Choice[]) => way.reduce((total, { free }) => total + free, 0);
  return ways.sort((a, b) => cost(a) - cost(b) || room(a) - room(b));
}

function isAhead(wait: Waiter, waits: readonly Waiter[], request: Request): boolean {
  if (wait.holder === request.holder || wait.priority < request.priority) return false;
  if (wait.priority > request.priority) return true;
  const requester = waits.find(({ holder }) => holder === request.holder);
  if (!requester) return true;
  return (
    wait.createdAt < requester.createdAt || (wait.createdAt === requester.createdAt && wait.holder < requester.holder)
  );
}

/** See the head of this file: `wait` must still fit once all leases that it found have ended. */
function wouldDelay({ devices, leases }: Ledger, wait: Waiter, taken: readonly Device[], share: number): boolean {
  const need = shareOf(wait);
  const roomBeside = (counts: (lease: Lease) => boolean, extra: boolean) =>
    devices
      .filter((device) => fitsType(device, wait))
      .filter((device) => {
        const held = sum(on(leases, device).filter(counts)) + (extra && taken.includes(device) ? share : 0);
        return device.capacityBytes - device.foreignBytes - held >= need;
      });
  const enough = (able: Device[]) =>
    able.some(({ type }) => able.filter((device) => device.type === type).length >= wait.gpuCount);
  const came = (lease: Lease) => lease.createdAt >= wait.createdAt;
  const stays = (lease: Lease) => lease.pinned && !came(lease);
  if (!enough(roomBeside(stays, false))) return false; // it waits for a pinned lease: no other lease delays it
  return !enough(roomBeside((lease) => came(lease) || stays(lease), true));
}

const behind = (wait: Waiter, { workspaceId, bytes }: Request) =>
  `waits for ${sizeOf(bytes)} behind ${nameFor(wait, workspaceId)}, which waits for ${sizeOf(wait.bytes)}`;

const NAMED = 4;

/** Ids of another workspace are private. */
const nameFor = ({ holder, workspaceId }: { holder: string; workspaceId: string }, reader: string) =>
  workspaceId === reader ? holder : "another workspace";

function heldBy({ leases }: Ledger, devices: readonly Device[], request: Request): string {
  const [device] = [...devices].sort((a, b) => freeBytes(leases, b) - freeBytes(leases, a)) as [Device];
  const held = on(leases, device).sort((a, b) => b.bytes - a.bytes);
  const named = held.slice(0, NAMED).map((each) => `${nameFor(each, request.workspaceId)} (${sizeOf(each.bytes)})`);
  if (held.length > NAMED) named.push(`${held.length - NAMED} more (${sizeOf(sum(held.slice(NAMED)))})`);
  if (device.foreignBytes > 0) named.push(`programs outside Verk (${sizeOf(device.foreignBytes)})`);
  const where =
    request.gpuCount > 1
      ? `each of ${request.gpuCount} devices; the freest, ${device.type} #${device.index}, has`
      : `${device.type} #${device.index}, which has`;
  return `waits for ${sizeOf(shareOf(request))} on ${where} ${sizeOf(freeBytes(leases, device))} free, held by ${named.join(", ")}`;
}

/** `3.1 GB`, as cards are sold. */
export const sizeOf = (bytes: number) =>
  bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${Math.ceil(bytes / 1e6)} MB`;
