import { expect, test } from "bun:test";
import { cpuMsOf } from "../../test/cost.ts";
import { fakeClock } from "../../test/harness.ts";
import { AppError } from "../lib/errors.ts";
import { type Release, Semaphore } from "./semaphore.ts";

const of = (permits: number, mostEach = permits) =>
  new Semaphore({ name: "tests", permits, mostWaitingEach: 256, mostEach });

/** Acquires permits and records the order in which they were granted. */
function callers(semaphore: Semaphore) {
  const order: string[] = [];
  const held = new Map<string, Release>();
  return {
    order,
    async acquire(name: string, workspaceId: string, permits = 1, signal?: AbortSignal) {
      const waiting = semaphore.acquire({ workspaceId, ...(signal && { signal }) }, { permits });
      const release = await waiting.catch((error: unknown) => {
        if (!(error instanceof AppError)) throw error;
        order.push(`${name} rejected: ${error.code}`);
      });
      if (!release) return;
      order.push(name);
      held.set(name, release);
    },
    /** Resolves once the next caller has had its turn. */
    async release(name: string) {
      held.get(name)?.();
      await new Promise(setImmediate);
    },
  };
}

test("a caller gets all its permits at once, and smaller callers behind it do not overtake it for ever", async () => {
  const semaphore = of(4);
  const { acquire, release, order } = callers(semaphore);
  await acquire("a", "one", 3);
  void acquire("big", "two", 4);
  void acquire("small", "two", 1);
  await release("none");
  expect([order, semaphore.free]).toEqual([["a"], 1]);
  await release("a");
  expect([order, semaphore.free]).toEqual([["a", "big"], 0]);
  await release("big");
  expect([order, semaphore.free]).toEqual([["a", "big", "small"], 3]);
});

test("the workspace that holds the fewest permits is next", async () => {
  const semaphore = of(2);
  const { acquire, release, order } = callers(semaphore);
  await acquire("a1", "a");
  await acquire("a2", "a");
  for (const name of ["a3", "a4", "a5"]) void acquire(name, "a");
  void acquire("b1", "b");
  await release("a1");
  expect(order).toEqual(["a1", "a2", "b1"]);
  await release("a2");
  expect(order).toEqual(["a1", "a2", "b1", "a3"]);
});

test("a caller that aborts leaves the queue and lets the callers behind it in", async () => {
  const semaphore = of(2);
  const { acquire, release, order } = callers(semaphore);
  await acquire("a", "one", 1);
  const caller = new AbortController();
  const big = acquire("big", "two", 2, caller.signal);
  void acquire("small", "two", 1);
  caller.abort(new Error("left"));
  await expect(big).rejects.toThrow("left");
  await release("none");
  expect([order, semaphore.waiting]).toEqual([["a", "small"], 0]);
  await expect(acquire("late", "two", 1, caller.signal)).rejects.toThrow("left");
  expect(semaphore.waiting).toBe(0);
});

test("a second release has no effect, and a full queue rejects at once", async () => {
  const semaphore = of(1);
  const { acquire, release, order } = callers(semaphore);
  await acquire("a", "one");
  await release("a");
  await release("a");
  expect(semaphore.free).toBe(1);
  await acquire("b", "one");
  for (let i = 0; i < 256; i++) void acquire("waits", "one");
  await acquire("c", "one");
  expect(order).toEqual(["a", "b", "c rejected: queue_full"]);
});

test("the last permit is kept for a workspace that holds none", async () => {
  const semaphore = new Semaphore({ name: "tests", permits: 2 });
  const { acquire, release, order } = callers(semaphore);
  await acquire("a1", "a");
  void acquire("a2", "a");
  await release("none");
  expect([order, semaphore.free]).toEqual([["a1"], 1]);
  await acquire("b1", "b");
  await release("a1");
  expect(order).toEqual(["a1", "b1", "a2"]);
  const single = new Semaphore({ name: "tests", permits: 1 });
  expect(single.tryAcquire("a")).toBeFunction();
});

test("M5: one workspace cannot hold all permits, neither at once nor one after the other", async () => {
  const semaphore = of(4, 3);
  const { acquire, release, order } = callers(semaphore);
  await expect(acquire("all", "a", 4)).rejects.toThrow("more than one workspace may ever hold");
  await acquire("a1", "a", 2);
  void acquire("a2", "a", 2); // two more would be four
  await acquire("b1", "b", 1);
  expect([order, semaphore.free]).toEqual([["a1", "b1"], 1]);
  await acquire("c1", "c", 1); // the last permit is kept for a workspace that holds none
  await release("a1");
  expect([order, semaphore.free]).toEqual([["a1", "b1", "c1", "a2"], 0]);
});

test("M5: a workspace at its limit that waits for itself does not hold up the others", async () => {
  const semaphore = of(8, 7);
  const { acquire, release, order } = callers(semaphore);
  await acquire("a1", "a", 2);
  await acquire("b1", "b", 3);
  void acquire("a2", "a", 6);
  void acquire("b2", "b", 1);
  await release("none");
  expect([order, semaphore.free]).toEqual([["a1", "b1", "b2"], 2]);
});

test("tryAcquire takes free permits, never waits and never overtakes a caller that does", async () => {
  const semaphore = of(2);
  const { acquire, release } = callers(semaphore);
  const first = semaphore.tryAcquire("a");
  expect(first).toBeFunction();
  void acquire("big", "b", 2);
  await release("none");
  expect([semaphore.tryAcquire("b"), semaphore.waiting]).toEqual([undefined, 1]);
  first?.();
  expect([semaphore.tryAcquire("c"), semaphore.free]).toEqual([undefined, 0]);
  await release("none");
  await release("big");
  expect(semaphore.tryAcquire("c", 2)).toBeFunction();
});

test("a wait ends with its timeout, and the caller's own abort rejects", async () => {
  const semaphore = of(1);
  const clock = fakeClock();
  semaphore.tryAcquire("a");
  const late = semaphore.acquire({ workspaceId: "b" }, { timeout: { clock, ms: 10 } });
  clock.advance(10);
  expect(await late).toBeUndefined();
  const caller = new AbortController();
  const left = semaphore.acquire({ workspaceId: "b", signal: caller.signal }, { timeout: { clock, ms: 10 } });
  caller.abort(new Error("left"));
  await expect(left).rejects.toThrow("left");
  expect(semaphore.waiting).toBe(0);
});

test("a caller that fits is served although others of a workspace at its limit fill the queue", async () => {
  const semaphore = new Semaphore({ name: "tests", permits: 2, mostWaitingEach: 1, mostEach: 1 });
  const { acquire, order } = callers(semaphore);
  await acquire("a1", "a");
  void acquire("a2", "a");
  await acquire("a3", "a");
  await acquire("b1", "b");
  expect(order).toEqual(["a1", "a3 rejected: queue_full", "b1"]);
});

test("S7: of workspaces that hold equally many, the one whose turn is longest ago is next", async () => {
  const semaphore = of(1);
  const { acquire, release, order } = callers(semaphore);
  await acquire("a1", "a");
  for (const name of ["a2", "a3"]) void acquire(name, "a");
  for (const name of ["b1", "b2"]) void acquire(name, "b");
  void acquire("c1", "c");
  for (const name of ["a1", "b1", "c1", "a2", "b2"]) await release(name);
  expect(order).toEqual(["a1", "b1", "c1", "a2", "b2", "a3"]);
});

test("S7: several permits can be kept for workspaces that hold none", async () => {
  const semaphore = of(6, 2);
  const { acquire, release, order } = callers(semaphore);
  for (const name of ["a1", "a2", "a3"]) void acquire(name, "a");
  for (const name of ["b1", "b2"]) void acquire(name, "b");
  for (const name of ["c1", "d1"]) void acquire(name, name);
  await release("none");
  expect([order, semaphore.free]).toEqual([["a1", "a2", "b1", "c1", "d1"], 1]);
});

test("S7: a workspace that fills its line gets 429 with the reason, and the others wait on", async () => {
  const semaphore = new Semaphore({ name: "readings of sources", permits: 1, mostWaitingEach: 2 });
  const { acquire, release, order } = callers(semaphore);
  await acquire("a1", "a");
  for (const name of ["a2", "a3"]) void acquire(name, "a");
  const refused = semaphore.acquire({ workspaceId: "a" });
  await expect(refused).rejects.toMatchObject({ code: "queue_full", headers: { "retry-after": "5" } });
  await expect(refused).rejects.toThrow("2 readings of sources waiting, and 2 may wait");
  expect(() => semaphore.mustHaveRoom("a")).toThrow("2 may wait");
  semaphore.mustHaveRoom("b");
  void acquire("b1", "b");
  await release("a1");
  expect(order).toEqual(["a1", "b1"]);
});

test("S7: rows of a database start in turns: fewest held first, then longest ago, one workspace never with all", () => {
  const semaphore = of(3, 2);
  const due = new Map([
    ["hostile", 1_000],
    ["other", 1],
  ]);
  const started: string[] = [];
  const held: Release[] = [];
  const fill = () =>
    semaphore.fill(due.keys(), (workspaceId, release) => {
      const left = due.get(workspaceId) ?? 0;
      if (left === 0) return false;
      due.set(workspaceId, left - 1);
      started.push(workspaceId);
      held.push(release);
      return true;
    });
  fill();
  expect(started).toEqual(["hostile", "other"]); // the third stays for a workspace that holds none
  due.set("late", 1);
  fill();
  expect(started).toEqual(["hostile", "other", "late"]);
  due.set("other", 1);
  held[0]?.();
  held[1]?.();
  fill();
  expect(started.slice(3)).toEqual(["hostile", "other"]); // its last turn is longer ago
});

test("S7: ten thousand callers come, leave and are served without a scan of the others", async () => {
  const semaphore = Semaphore.unshared("a test", { permits: 1 });
  const first = semaphore.tryAcquire("a");
  const leavers: AbortController[] = [];
  let served = 0;
  const waits = Array.from({ length: 10_000 }, (_, i) => {
    const leaver = new AbortController();
    if (i % 2 === 0) leavers.push(leaver);
    return semaphore
      .acquire({ workspaceId: "a", signal: leaver.signal })
      .then((release) => {
        served++;
        release?.();
      })
      .catch(() => {});
  });
  const left = cpuMsOf(() => {
    for (const leaver of leavers) leaver.abort(new Error("left"));
  });
  expect(semaphore.waiting).toBe(5_000);
  first?.();
  await Promise.all(waits);
  expect([served, semaphore.waiting, semaphore.free]).toEqual([5_000, 0, 1]);
  expect(await left).toBeLessThan(500); // a scan for each would take seconds
});
