import { expect, test } from "bun:test";
import { type Device, freeBytes, type Lease, place, type Request, type Waiter } from "./policy.ts";

/** A small machine played at random: every step must keep the promises of the ledger. */
type World = {
  devices: Device[];
  leases: Lease[];
  waits: (Waiter & { request: Request })[];
  idle: Map<string, number>;
  now: number;
};

function generator(seed: number) {
  let state = seed >>> 0;
  return (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function newWorld(random: (below: number) => number): World {
  const devices = Array.from({ length: 1 + random(3) }, (_, index) => ({
    id: `d${index}`,
    index,
    type: random(3) === 0 ? "B" : "A",
    capacityBytes: 8 + random(8),
    foreignBytes: random(3),
  }));
  return { devices, leases: [], waits: [], idle: new Map(), now: 0 };
}

const newRequest = (world: World, random: (below: number) => number): Request => ({
  holder: `h${world.now}`,
  kind: "deployment",
  workspaceId: "ws",
  bytes: 1 + random(10),
  gpuCount: 1 + (random(5) === 0 ? 1 : 0),
  priority: 0,
  pinned: false,
  mayEvict: random(2) === 0,
});

/** Applies the decision as the service does. Returns the evicted holders. */
function settle(world: World, request: Request): string[] {
  const placement = place(world, request);
  const evicted = placement.outcome === "evict" ? placement.holders : [];
  if (placement.outcome === "evict") world.leases = world.leases.filter(({ holder }) => !evicted.includes(holder));
  if (placement.outcome === "granted" || placement.outcome === "evict") {
    const { holder, workspaceId, priority, pinned } = request;
    const bytes = Math.ceil(request.bytes / request.gpuCount);
    for (const { id } of placement.devices)
      world.leases.push({ holder, device: id, workspaceId, bytes, priority, pinned, createdAt: world.now });
  }
  const before = world.waits.find(({ holder }) => holder === request.holder);
  if (placement.outcome !== "wait") world.waits = world.waits.filter((wait) => wait !== before);
  else if (!before) world.waits.push({ ...request, createdAt: world.now, request });
  return evicted;
}

const fits = ({ devices, leases }: World) =>
  devices.every((device) => {
    const held = leases.filter((lease) => lease.device === device.id).reduce((total, { bytes }) => total + bytes, 0);
    return held + device.foreignBytes <= device.capacityBytes && freeBytes(leases, device) >= 0;
  });

const endOne = (world: World, holder: string | undefined) => {
  world.leases = world.leases.filter((lease) => lease.holder !== holder);
};

test("random requests, ends and evictions never exceed a device, and only the idle and unpinned give way", () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = generator(seed);
    const world = newWorld(random);
    for (; world.now < 120; world.now++) {
      const held = [...new Set(world.leases.map(({ holder }) => holder))];
      const some = held[random(held.length)];
      world.idle = new Map(held.filter(() => random(3) === 0).map((holder) => [holder, random(100)]));
      if (random(4) === 0) endOne(world, some);
      const waiting = world.waits[random(world.waits.length)];
      const request =
        waiting && random(3) === 0
          ? waiting.request
          : { ...newRequest(world, random), pinned: random(6) === 0, priority: random(3) };
      const before = world.leases;
      for (const holder of settle(world, request)) {
        expect(request.mayEvict).toBe(true);
        expect(world.idle.has(holder)).toBe(true);
        const victims = before.filter((lease) => lease.holder === holder);
        expect(victims.some(({ pinned, priority }) => pinned || priority > request.priority)).toBe(false);
      }
      expect(fits(world)).toBe(true);
    }
  }
});

test("no waiter starves under a stream of later requests, as long as holders end", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = generator(seed);
    const world = newWorld(random);
    const first = world.devices[0] as Device;
    // Small work that never lets the device run empty by itself; each holder ends after a while.
    const endsAt = new Map<string, number>();
    const step = () => {
      world.now++;
      for (const [holder, at] of endsAt) if (at <= world.now) endOne(world, holder);
      const small = { ...newRequest(world, random), bytes: 1 + random(3), gpuCount: 1, mayEvict: false };
      settle(world, small);
      endsAt.set(small.holder, world.now + 5 + random(30));
      world.waits = world.waits.filter(({ holder }) => !holder.startsWith("h") || random(4) > 0); // some give up
    };
    while (world.now < 60) step();
    const bytes = first.capacityBytes - first.foreignBytes;
    const big = { ...newRequest(world, random), holder: "big", bytes, gpuCount: 1, mayEvict: false };
    const began = world.now;
    settle(world, big);
    while (world.waits.some(({ holder }) => holder === "big")) {
      step();
      settle(world, big);
      if (world.now - began > 100) throw new Error(`seed ${seed}: waited ${world.now - began} steps`);
    }
  }
});
