import { describe, expect, test } from "bun:test";
import { type Device, type Lease, type Ledger, place, type Request, type Waiter } from "./policy.ts";

const GB = 1e9;
const card = (index: number, gb: number, more: Partial<Device> = {}): Device => ({
  id: `GPU-${index}`,
  index,
  type: "H200",
  capacityBytes: gb * GB,
  foreignBytes: 0,
  ...more,
});
const lease = (holder: string, gb: number, more: Partial<Lease> = {}): Lease => ({
  holder,
  device: "GPU-0",
  workspaceId: "ws_a",
  bytes: gb * GB,
  priority: 0,
  pinned: false,
  createdAt: 0,
  ...more,
});
const ask = (gb: number, more: Partial<Request> = {}): Request => ({
  holder: "new",
  kind: "deployment",
  workspaceId: "ws_a",
  bytes: gb * GB,
  gpuCount: 1,
  priority: 0,
  pinned: false,
  mayEvict: true,
  ...more,
});
const waiter = (holder: string, gb: number, more: Partial<Waiter> = {}): Waiter => ({
  holder,
  workspaceId: "ws_a",
  bytes: gb * GB,
  gpuCount: 1,
  priority: 0,
  createdAt: 10,
  ...more,
});
const ledger = (devices: Device[], more: Partial<Ledger> = {}): Ledger => ({
  devices,
  leases: [],
  waits: [],
  idle: new Map(),
  ...more,
});
const indices = (placement: ReturnType<typeof place>) =>
  placement.outcome === "granted" || placement.outcome === "evict"
    ? placement.devices.map(({ index }) => index)
    : placement;
const reasonOf = (placement: ReturnType<typeof place>) => {
  if (placement.outcome !== "wait" && placement.outcome !== "never") throw new Error(`it is ${placement.outcome}`);
  return placement.reason;
};

describe("where it fits", () => {
  test("a request for one device goes there or nowhere", () => {
    const devices = [card(0, 80), card(1, 24)];
    expect(indices(place(ledger(devices), ask(10, { device: "GPU-0" })))).toEqual([0]);
    expect(indices(place(ledger(devices), ask(10, { device: "GPU-1" })))).toEqual([1]);
    expect(place(ledger(devices), ask(30, { device: "GPU-1" })).outcome).toBe("never");
  });

  test("what is added to a holder's memory goes where that is, or nowhere", () => {
    const devices = [card(0, 80), card(1, 24)];
    const there = ledger(devices, { leases: [lease("base", 10)] });
    expect(indices(place(there, ask(2)))).toEqual([1]);
    expect(indices(place(there, ask(2, { beside: "base" })))).toEqual([0]);
    expect(place(there, ask(75, { beside: "base", mayEvict: false })).outcome).toBe("wait");
    expect(place(there, ask(2, { beside: "nobody" })).outcome).toBe("never");
  });

  test("the device with the least room to spare is taken", () => {
    const devices = [card(0, 80), card(1, 24), card(2, 40)];
    expect(indices(place(ledger(devices), ask(20)))).toEqual([1]);
    expect(indices(place(ledger(devices), ask(30)))).toEqual([2]);
    expect(indices(place(ledger(devices, { leases: [lease("x", 60)] }), ask(20)))).toEqual([0]);
  });

  test("memory that other programs use is not given away", () => {
    const devices = [card(0, 80, { foreignBytes: 70 * GB })];
    expect(place(ledger(devices), ask(10)).outcome).toBe("granted");
    expect(reasonOf(place(ledger(devices), ask(11)))).toBe(
      "waits for 11.0 GB on H200 #0, which has 10.0 GB free, held by programs outside Verk (70.0 GB)",
    );
  });

  test("several devices are of one type, and the bytes are split between them", () => {
    const devices = [card(0, 80), card(1, 24, { type: "L40S" }), card(2, 24, { type: "L40S" }), card(3, 80)];
    expect(indices(place(ledger(devices), ask(40, { gpuCount: 2 })))).toEqual([1, 2]);
    expect(indices(place(ledger(devices), ask(50, { gpuCount: 2 })))).toEqual([0, 3]);
    expect(place(ledger(devices), ask(41, { gpuCount: 2, gpuType: "l40s" })).outcome).toBe("granted");
  });

  test("what can never fit is refused with the reason", () => {
    const devices = [card(0, 80), card(1, 24, { type: "L40S" })];
    expect(reasonOf(place(ledger(devices), ask(81)))).toBe(
      "Needs 81.0 GB on one device, and the largest of H200, L40S can give 80.0 GB",
    );
    expect(reasonOf(place(ledger(devices), ask(1, { gpuType: "B200" })))).toBe(
      "This machine has no GPU of type B200, only H200, L40S",
    );
    expect(reasonOf(place(ledger(devices), ask(2, { gpuCount: 2 })))).toBe(
      "Needs 2 equal devices, and this machine has 1 that can give 1.0 GB",
    );
    expect(place(ledger([]), ask(1)).outcome).toBe("never");
  });
});

describe("who gives way", () => {
  const devices = [card(0, 10)];

  test("as few as needed, and of equally few those idle longest", () => {
    const leases = [lease("a", 2), lease("b", 3), lease("c", 3), lease("d", 2)];
    const idle = new Map([
      ["a", 1],
      ["b", 2],
      ["c", 3],
      ["d", 4],
    ]);
    const evicted = (gb: number) => place(ledger(devices, { leases, idle }), ask(gb));
    expect(evicted(2)).toMatchObject({ outcome: "evict", holders: ["a"] });
    expect(evicted(3)).toMatchObject({ outcome: "evict", holders: ["b"] });
    expect(evicted(4)).toMatchObject({ outcome: "evict", holders: ["a", "b"] });
    expect(evicted(6)).toMatchObject({ outcome: "evict", holders: ["b", "c"] });
    expect(evicted(10)).toMatchObject({ outcome: "evict", holders: ["a", "b", "c", "d"] });
  });

  test("nobody who is busy, pinned or of higher priority, and nobody for a request that may not ask", () => {
    const full = (more: Partial<Lease>, idle = [["a", 1]] as [string, number][]) =>
      ledger(devices, { leases: [lease("a", 10, more)], idle: new Map(idle) });
    expect(place(full({}), ask(1)).outcome).toBe("evict");
    expect(place(full({}, []), ask(1)).outcome).toBe("wait");
    expect(place(full({ pinned: true }), ask(1)).outcome).toBe("wait");
    expect(place(full({ priority: 1 }), ask(1)).outcome).toBe("wait");
    expect(place(full({ priority: 1 }), ask(1, { priority: 1 })).outcome).toBe("evict");
    expect(place(full({}), ask(1, { mayEvict: false })).outcome).toBe("wait");
  });

  test("nobody where another device has room", () => {
    const two = [card(0, 10), card(1, 80)];
    const full = ledger(two, { leases: [lease("a", 10)], idle: new Map([["a", 1]]) });
    expect(indices(place(full, ask(9)))).toEqual([1]);
  });

  test("a lease that was measured larger than the device is paid back too", () => {
    const over = ledger(devices, { leases: [lease("a", 6), lease("b", 6)], idle: new Map([["a", 1]]) });
    expect(place(over, ask(4))).toMatchObject({ outcome: "evict", holders: ["a"] });
    expect(place(over, ask(5)).outcome).toBe("wait");
  });
});

describe("the queue", () => {
  const devices = [card(0, 10)];

  test("the reason names the holders, and other workspaces without their ids", () => {
    const leases = [lease("dep_1", 2), lease("job_1", 7, { workspaceId: "ws_b" })];
    expect(reasonOf(place(ledger(devices, { leases }), ask(3)))).toBe(
      "waits for 3.0 GB on H200 #0, which has 1.0 GB free, held by another workspace (7.0 GB), dep_1 (2.0 GB)",
    );
  });

  test("later work passes only while it leaves room for the one ahead", () => {
    const leases = [lease("old", 6)];
    const waits = [waiter("big", 8)];
    expect(place(ledger(devices, { leases, waits }), ask(2)).outcome).toBe("granted");
    expect(reasonOf(place(ledger(devices, { leases, waits }), ask(3)))).toBe(
      "waits for 3.0 GB behind big, which waits for 8.0 GB",
    );
    const passed = [...leases, lease("small", 2, { createdAt: 11 })];
    expect(place(ledger(devices, { leases: passed, waits }), ask(1)).outcome).toBe("wait");
  });

  test("one that waits for a pinned holder holds up nobody", () => {
    const leases = [lease("old", 6, { pinned: true })];
    expect(place(ledger(devices, { leases, waits: [waiter("big", 8)] }), ask(3)).outcome).toBe("granted");
  });

  test("higher priority goes first, age decides between equals", () => {
    const waits = [waiter("big", 8), waiter("new", 3, { createdAt: 12 })];
    const leases = [lease("old", 6)];
    expect(place(ledger(devices, { leases, waits }), ask(3)).outcome).toBe("wait");
    expect(place(ledger(devices, { leases, waits }), ask(3, { priority: 1 })).outcome).toBe("granted");
    const older = [waiter("big", 8), waiter("new", 3, { createdAt: 9 })];
    expect(place(ledger(devices, { leases, waits: older }), ask(3)).outcome).toBe("granted");
  });
});

describe("replicas of one deployment", () => {
  const devices = [card(0, 10), card(1, 10), card(2, 10)];
  const deviceOf = (leases: Lease[], more: Partial<Request> = {}) => {
    const placement = place({ devices, leases, waits: [], idle: new Map() }, ask(2, { spreads: "dep_a", ...more }));
    return placement.outcome === "granted" ? placement.devices.map(({ index }) => index) : placement.outcome;
  };
  const other = lease("job_b", 3, { device: "GPU-0" });
  const replica = (ordinal: number, device: string) => lease(`dep_a/${ordinal}`, 2, { device });

  test("go one by one to the card with the fewest of them, then to the one with the most room", () => {
    expect(deviceOf([other])).toEqual([1]);
    expect(deviceOf([other, replica(1, "GPU-1")])).toEqual([2]);
    expect(deviceOf([other, replica(1, "GPU-1"), replica(2, "GPU-2")])).toEqual([0]);
    expect(deviceOf([other, replica(1, "GPU-1"), replica(2, "GPU-2"), replica(3, "GPU-0")])).toEqual([1]);
  });

  test("do not count replicas of a deployment with a longer name, and share a card before another holder is evicted", () => {
    expect(deviceOf([lease("dep_ab/1", 1, { device: "GPU-1" }), other])).toEqual([2]);
    const full = [1, 2].map((i) => lease(`dep_c/${i}`, 9, { device: `GPU-${i}` }));
    expect(deviceOf([replica(1, "GPU-0"), ...full])).toEqual([0]);
  });

  test("each take several cards where they need several", () => {
    expect(deviceOf([other], { gpuCount: 2 })).toEqual([1, 2]);
  });

  test("without `spreads` the tightest fit is taken", () => {
    const placement = place({ devices, leases: [other], waits: [], idle: new Map() }, ask(2));
    expect(placement).toMatchObject({ outcome: "granted", devices: [{ index: 0 }] });
  });
});

test("two jobs that need all cards never hold one card each", () => {
  const devices = [card(0, 10), card(1, 10)];
  const both = (holder: string) => ask(16, { holder, gpuCount: 2, pinned: true });
  const first = place({ devices, leases: [], waits: [], idle: new Map() }, both("job_a"));
  expect(first).toMatchObject({ outcome: "granted", devices: [{ index: 0 }, { index: 1 }] });
  const held = ["GPU-0", "GPU-1"].map((device) => lease("job_a", 8, { device, pinned: true }));
  expect(place({ devices, leases: held, waits: [], idle: new Map() }, both("job_b")).outcome).toBe("wait");
  const half = [lease("dep_c/1", 8, { device: "GPU-1", pinned: true })];
  expect(place({ devices, leases: half, waits: [], idle: new Map() }, both("job_b")).outcome).toBe("wait");
});
