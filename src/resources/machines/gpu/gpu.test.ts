import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { fakeClock, testApp, until } from "../../../../test/harness.ts";
import { durable } from "../../../platform/db/db.ts";
import { failpoints } from "../../../platform/failpoint.ts";
import type { Gpu } from "../../../platform/machine/hardware.ts";
import * as gpu from "./service.ts";

const GB = 1e9;
const MIB = 1_048_576;
const clock = fakeClock();
const app = testApp({ clock, flags: { "gpu.reserve_mib": 0 } });
const { ctx, workspaceA, workspaceB } = app;
afterAll(async () => {
  await app.close();
  app.remove();
});

const fakeCard = (index: number, gb: number, more: Partial<Gpu> = {}): Gpu => ({
  index,
  uuid: `GPU-${index}`,
  name: "NVIDIA H200",
  type: "H200",
  memoryTotalMib: (gb * GB) / MIB,
  memoryUsedMib: 0,
  utilizationPercent: 7,
  temperatureCelsius: 41,
  powerWatts: 120.5,
  driverVersion: "1",
  ...more,
});
const ask = (holder: string, gb: number, more: Partial<gpu.Request> = {}): gpu.Request => ({
  holder,
  kind: "deployment",
  workspaceId: workspaceA,
  bytes: gb * GB,
  gpuCount: 1,
  priority: 0,
  pinned: false,
  mayEvict: true,
  ...more,
});
const statusOf = async (holder: string, gb: number, more: Partial<gpu.Request> = {}) =>
  (await gpu.acquire(ctx, ask(holder, gb, more))).status;

let idle: Map<string, number>;
let evicted: string[];
beforeEach(() => {
  idle = new Map();
  evicted = [];
  gpu.useProbe(ctx, async () => [fakeCard(0, 10)]);
  gpu.clear(ctx);
  gpu.registerKind(ctx, "deployment", {
    idle: () => [...idle].map(([holder, since]) => ({ holder, since })),
    evict: async (holder) => {
      evicted.push(holder);
      gpu.release(ctx, holder);
    },
  });
});

describe("leases", () => {
  test("what was given back in a commit that was lost is free for the next request", async () => {
    expect(await statusOf("a", 8)).toBe("granted");
    failpoints.hit = (name) => {
      if (name === "db.before_commit") throw Object.assign(new Error("no space"), { code: "SQLITE_FULL" });
    };
    gpu.release(ctx, "a");
    await expect(durable(ctx.db)).rejects.toThrow("full");
    delete failpoints.hit;
    expect(await statusOf("b", 8)).toBe("granted");
    expect(await statusOf("c", 8)).toBe("waiting");
    clock.advance(1);
    gpu.release(ctx, "b");
    expect(await statusOf("b", 8)).toBe("waiting"); // behind c: its place is not the one it gave up
    expect(await statusOf("c", 8)).toBe("granted");
  });

  test("requests at the same moment never get the same bytes", async () => {
    const statuses = await Promise.all(Array.from({ length: 8 }, (_, i) => statusOf(`dep_${i}`, 3)));
    expect(statuses.filter((status) => status === "granted")).toHaveLength(3);
    expect(statuses.filter((status) => status === "waiting")).toHaveLength(5);
  });

  test("asking again gives the lease that is there", async () => {
    const first = await gpu.acquire(ctx, ask("dep_a", 6));
    expect(first).toEqual({ status: "granted", devices: [0], deviceIds: ["GPU-0"] });
    expect(await gpu.acquire(ctx, ask("dep_a", 6))).toEqual(first);
    expect((await app.call("GET", "/v1/gpu")).body.data[0].memory_leased_bytes).toBe(6 * GB);
  });

  test("what is given back wakes those who wait, and they get it", async () => {
    await gpu.acquire(ctx, ask("dep_a", 6));
    expect(await statusOf("dep_b", 6)).toBe("waiting");
    expect(gpu.waitingReason(ctx, "dep_b")).toBe(
      "waits for 6.0 GB on H200 #0, which has 4.0 GB free, held by dep_a (6.0 GB)",
    );
    let freed = 0;
    const stop = gpu.onFreed(ctx, () => void freed++);
    gpu.release(ctx, "dep_a");
    await until("the listener", () => freed === 1);
    stop();
    expect(await statusOf("dep_b", 6)).toBe("granted");
    expect(gpu.waitingReason(ctx, "dep_b")).toBeUndefined();
  });

  test("a lease becomes what its worker measured", async () => {
    await gpu.acquire(ctx, ask("dep_a", 6));
    expect(await statusOf("dep_b", 6)).toBe("waiting");
    gpu.correct(ctx, "dep_a", 4 * GB);
    expect(await statusOf("dep_b", 6)).toBe("granted");
  });

  test("a measure below the lease wakes those who wait, and one above it does not", async () => {
    await gpu.acquire(ctx, ask("dep_a", 6));
    expect(await statusOf("dep_b", 6)).toBe("waiting");
    let freed = 0;
    const stop = gpu.onFreed(ctx, () => void freed++);
    gpu.correct(ctx, "dep_a", 7 * GB);
    await durable(ctx.db);
    expect(freed).toBe(0);
    gpu.correct(ctx, "dep_a", 4 * GB);
    await durable(ctx.db);
    expect(freed).toBe(1);
    stop();
  });

  test("on several cards each holds its part", async () => {
    gpu.useProbe(ctx, async () => [fakeCard(0, 10), fakeCard(1, 10)]);
    expect(await gpu.acquire(ctx, ask("dep_a", 12, { gpuCount: 2 }))).toMatchObject({ devices: [0, 1] });
    const { body } = await app.call("GET", "/v1/gpu");
    expect(body.data.map((each: { memory_leased_bytes: number }) => each.memory_leased_bytes)).toEqual([6e9, 6e9]);
  });

  test("what can never fit does not enter the queue", async () => {
    expect(await statusOf("dep_a", 11)).toBe("never");
    expect(gpu.waitingReason(ctx, "dep_a")).toBeUndefined();
  });

  test("nothing is held after a start", async () => {
    await gpu.acquire(ctx, ask("dep_a", 10));
    gpu.clear(ctx);
    expect(await statusOf("dep_b", 10)).toBe("granted");
  });
});

describe("eviction", () => {
  test("an idle holder is parked once, however many want its place", async () => {
    await gpu.acquire(ctx, ask("dep_idle", 10));
    idle.set("dep_idle", clock.now());
    const statuses = await Promise.all([statusOf("dep_a", 5), statusOf("dep_b", 5), statusOf("dep_c", 5)]);
    expect(evicted).toEqual(["dep_idle"]);
    expect(statuses.sort()).toEqual(["granted", "granted", "waiting"]);
  });

  test("a holder that refuses to give way is not asked again by the same request", async () => {
    await gpu.acquire(ctx, ask("dep_busy", 10));
    idle.set("dep_busy", clock.now());
    gpu.registerKind(ctx, "deployment", {
      idle: () => [{ holder: "dep_busy", since: 0 }],
      evict: async (holder) => {
        evicted.push(holder);
        throw new Error("a request came in");
      },
    });
    expect(await statusOf("dep_a", 5)).toBe("waiting");
    expect(evicted).toEqual(["dep_busy"]);
  });

  test("one that gives up while room is made for it gets nothing", async () => {
    await gpu.acquire(ctx, ask("dep_idle", 10));
    idle.set("dep_idle", clock.now());
    const parking = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    gpu.registerKind(ctx, "deployment", {
      idle: () => [{ holder: "dep_idle", since: 0 }],
      evict: async (holder) => {
        begun.resolve();
        await parking.promise;
        gpu.release(ctx, holder);
      },
    });
    const status = statusOf("dep_a", 5);
    await begun.promise;
    gpu.release(ctx, "dep_a");
    parking.resolve();
    expect(await status).toBe("waiting");
    expect((await app.call("GET", "/v1/gpu")).body.data[0].leases).toEqual([]);
    expect((await app.call("GET", "/v1/gpu/availability")).body.queue).toEqual([]);
  });
});

describe("the cards", () => {
  test("what other programs use is seen, also behind a lease that is not filled yet", async () => {
    let used = 4;
    gpu.useProbe(ctx, async () => [fakeCard(0, 10, { memoryUsedMib: (used * GB) / MIB })]);
    expect(await statusOf("dep_a", 7)).toBe("waiting");
    gpu.release(ctx, "dep_a");
    expect(await statusOf("dep_b", 5)).toBe("granted");
    clock.advance(2_000);
    await app.call("GET", "/v1/gpu"); // looks again: 4 used, 5 leased, nothing of it filled
    expect(await statusOf("dep_c", 2)).toBe("waiting");
    gpu.release(ctx, "dep_c");
    gpu.correct(ctx, "dep_b", 5 * GB);
    used = 5; // the others have gone
    clock.advance(2_000);
    expect(await statusOf("dep_d", 5)).toBe("granted");
  });

  test("an empty answer of the driver does not make the cards vanish", async () => {
    let there = true;
    gpu.useProbe(ctx, async () => (there ? [fakeCard(0, 10)] : []));
    await app.call("GET", "/v1/gpu");
    there = false;
    clock.advance(2_000);
    expect((await app.call("GET", "/v1/gpu")).body.data).toMatchObject([{ type: "H200" }]);
  });

  test("a driver that hangs costs two seconds and then the last known figures", async () => {
    gpu.useProbe(ctx, () => new Promise(() => {}));
    const answer = gpu.list(ctx, workspaceA, { limit: 20 });
    clock.advance(2_000);
    expect((await answer).data).toMatchObject([{ type: "cpu" }]);
  });

  test("without a card main memory is leased", async () => {
    gpu.useProbe(ctx, async () => []);
    expect(await gpu.acquire(ctx, ask("dep_a", 0.001))).toEqual({ status: "granted", devices: [], deviceIds: ["cpu"] });
    const { body } = await app.call("GET", "/v1/gpu");
    expect(body.data).toMatchObject([{ object: "gpu", id: "cpu", type: "cpu", uuid: null, index: 0 }]);
    expect(body.data[0].memory_total_bytes).toBeGreaterThan(0);
  });
});

describe("what a caller sees", () => {
  test("its own holders by id, the others' only as bytes", async () => {
    await gpu.acquire(ctx, ask("dep_mine", 2));
    await gpu.acquire(ctx, ask("dep_theirs", 3, { workspaceId: workspaceB }));
    idle.set("dep_mine", clock.now());
    const { body } = await app.call("GET", "/v1/gpu");
    expect(body).toMatchObject({ object: "list", has_more: false });
    expect(body.data).toMatchObject([
      { index: 0, uuid: "GPU-0", memory_leased_bytes: 5 * GB, utilization_percent: 7, temperature_celsius: 41 },
    ]);
    const at = new Date(clock.now()).toISOString();
    expect(body.data[0].leases).toEqual([
      {
        holder: "dep_mine",
        kind: "deployment",
        bytes: 2 * GB,
        priority: 0,
        pinned: false,
        idle_since: at,
        created_at: at,
      },
      {
        holder: null,
        kind: "deployment",
        bytes: 3 * GB,
        priority: null,
        pinned: null,
        idle_since: null,
        created_at: null,
      },
    ]);
  });

  test("what is free, and the queue without the others' ids", async () => {
    await gpu.acquire(ctx, ask("dep_theirs", 7, { workspaceId: workspaceB }));
    await gpu.acquire(ctx, ask("dep_waits", 8, { workspaceId: workspaceB }));
    clock.advance(1);
    await gpu.acquire(ctx, ask("dep_mine", 4));
    const { body } = await app.call("GET", "/v1/gpu/availability");
    expect(body.data).toEqual([
      { type: "H200", total: 1, available: 1, memory_free_bytes: 3 * GB, largest_free_bytes: 3 * GB },
    ]);
    expect(body.queue).toMatchObject([
      { holder: null, bytes: 8 * GB, reason: "waits for 8.0 GB" },
      { holder: "dep_mine", bytes: 4 * GB },
    ]);
    expect(JSON.stringify(body)).not.toMatch(/dep_theirs|dep_waits/);
  });

  test("conformance note 9: a device with free memory is available, and a full one is not", async () => {
    gpu.useProbe(ctx, async () => [fakeCard(0, 10), fakeCard(1, 10)]);
    const available = async () => (await app.call("GET", "/v1/gpu/availability")).body.data[0];
    expect(await available()).toMatchObject({ total: 2, available: 2 });
    await gpu.acquire(ctx, ask("dep_small", 1));
    expect(await available()).toMatchObject({ available: 2 });
    const { largest_free_bytes: most } = await available();
    await gpu.acquire(ctx, ask("dep_large", most / GB));
    expect(await available()).toMatchObject({ total: 2, available: 1 });
  });

  test("the list pages like every other", async () => {
    gpu.useProbe(ctx, async () => [fakeCard(0, 10), fakeCard(1, 10)]);
    expect((await app.call("GET", "/v1/gpu?limit=1")).body).toMatchObject({ data: [{ index: 0 }], has_more: true });
    expect((await app.call("GET", "/v1/gpu?after=GPU-0")).body).toMatchObject({ data: [{ index: 1 }] });
    expect((await app.call("GET", "/v1/gpu?after=GPU-9")).body.error.code).toBe("invalid_cursor");
  });
});
