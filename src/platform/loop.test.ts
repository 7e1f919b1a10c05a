import { expect, test } from "bun:test";
import type { Clock } from "./clock.ts";
import { systemClock } from "./clock.ts";
import { type LoopSpec, nextDelay, startLoop } from "./loop.ts";

/** A clock that moves only when told; sleepers wake in order of their time. */
function manualClock(startMs = 0) {
  let nowMs = startMs;
  let sleepers: { at: number; wake: () => void }[] = [];
  const clock: Clock = {
    now: () => nowMs,
    steady: () => nowMs,
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const sleeper = { at: nowMs + ms, wake: resolve };
        sleepers.push(sleeper);
        signal?.addEventListener("abort", () => {
          sleepers = sleepers.filter((other) => other !== sleeper);
          resolve();
        });
      }),
  };
  async function advance(ms: number) {
    const end = nowMs + ms;
    for (;;) {
      await turn();
      const next = sleepers.sort((a, b) => a.at - b.at)[0];
      if (!next || next.at > end) break;
      nowMs = next.at;
      sleepers.shift();
      next.wake();
    }
    nowMs = end;
    await turn();
  }
  return { clock, advance };
}

/** Lets everything that is ready to run do so. */
const turn = async () => {
  for (let i = 0; i < 5; i++) await new Promise(setImmediate);
};

function setup(spec: Partial<LoopSpec> & Pick<LoopSpec, "tick">, clock: Clock = systemClock) {
  const errors: Record<string, unknown>[] = [];
  const log = { error: (_msg: string, fields: Record<string, unknown> = {}) => void errors.push(fields) };
  const loop = startLoop({ name: "test", schedule: { everyMs: 3_600_000 }, ...spec }, { log, clock });
  return { loop, errors };
}

test.each([
  [1, 1_000],
  [2, 2_000],
  [3, 4_000],
  [7, 60_000],
  [5_000, 60_000],
])("after %i failures in a row it pauses %i ms", (failures, ms) => expect(nextDelay(failures)).toBe(ms));

test("an interval ticks at once and then after every pause", async () => {
  const { clock, advance } = manualClock();
  const at: number[] = [];
  const { loop } = setup({ schedule: { everyMs: 100 }, tick: () => void at.push(clock.now()) }, clock);
  await advance(250);
  await loop.stop();
  expect(at).toEqual([0, 100, 200]);
});

test("a cron pattern ticks at its times in UTC, however far away they are", async () => {
  const { clock, advance } = manualClock(Date.UTC(2026, 0, 1, 22, 59, 30));
  const at: string[] = [];
  const { loop } = setup(
    { schedule: "0 3 * * *", tick: () => void at.push(new Date(clock.now()).toISOString()) },
    clock,
  );
  await advance(30 * 3_600_000);
  await loop.stop();
  expect(at).toEqual(["2026-01-02T03:00:00.000Z", "2026-01-03T03:00:00.000Z"]);
});

test("a pattern that is wrong or never comes is refused at start", () => {
  expect(() => setup({ schedule: "every day", tick: () => {} })).toThrow();
  expect(() => setup({ schedule: "0 0 0 1 1 * 2001", tick: () => {} })).toThrow("never comes");
});

test("ticks never overlap, and any number of wakes during one cause exactly one more", async () => {
  let running = 0;
  let most = 0;
  let ticks = 0;
  const gates: (() => void)[] = [];
  const { loop } = setup({
    tick: async () => {
      ticks++;
      most = Math.max(most, ++running);
      await new Promise<void>((resolve) => gates.push(resolve));
      running--;
    },
  });
  await turn();
  for (let i = 0; i < 50; i++) loop.wake();
  await turn();
  expect([ticks, most]).toEqual([1, 1]);
  gates.shift()?.();
  await turn();
  expect([ticks, most]).toEqual([2, 1]);
  gates.shift()?.();
  await loop.idle();
  await turn();
  expect(ticks).toBe(2);
  await loop.stop();
});

test("wake is synchronous: the tick does not run inside the caller", async () => {
  let ticks = 0;
  const { loop } = setup({ tick: () => void ticks++ });
  await turn();
  loop.wake();
  loop.wake();
  expect(ticks).toBe(1);
  await loop.idle();
  expect(ticks).toBe(2);
  await loop.stop();
});

test("a tick that always wakes itself leaves room for timers", async () => {
  const spec: LoopSpec = { name: "greedy", schedule: { everyMs: 1e9 }, tick: () => loop.wake() };
  const loop = startLoop(spec, { log: { error: () => {} }, clock: systemClock });
  await new Promise((resolve) => setTimeout(resolve, 1)); // would never come back
  await loop.stop();
});

test("a failing tick is logged once, backs off even when woken, and recovers", async () => {
  const { clock, advance } = manualClock();
  const at: number[] = [];
  const tick = () => {
    at.push(clock.now());
    if (at.length <= 2) throw new Error("no luck");
  };
  const { loop, errors } = setup({ schedule: { everyMs: 10_000 }, tick }, clock);
  await advance(0);
  for (let i = 0; i < 10; i++) loop.wake();
  await advance(14_000);
  await loop.stop();
  expect(at).toEqual([0, 1_000, 3_000, 13_000]);
  expect(errors.map((e) => [e["failures"], e["retry_ms"]])).toEqual([
    [1, 1_000],
    [2, 2_000],
  ]);
});

test("stop aborts the signal, waits for the running tick and lets no other begin", async () => {
  let ticks = 0;
  let finished = false;
  const { loop, errors } = setup({
    tick: async (signal) => {
      ticks++;
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      await turn();
      finished = true;
      signal.throwIfAborted();
    },
  });
  await turn();
  loop.wake();
  await Promise.all([loop.stop(), loop.stop()]);
  loop.wake();
  await loop.idle();
  expect({ ticks, finished, errors }).toEqual({ ticks: 1, finished: true, errors: [] });
});

test("stop during a back-off does not wait for it", async () => {
  const tick = () => {
    throw new Error("always");
  };
  const { clock } = manualClock(); // the clock does not move
  const { loop, errors } = setup({ schedule: { everyMs: 1 }, tick }, clock);
  await turn();
  expect(errors).toHaveLength(1);
  await loop.stop();
});

test("loops begin one by one, and what came in between is answered", async () => {
  const seen: string[] = [];
  const log = { error: () => {} };
  const all = ["a", "b", "c"].map((name) => {
    const tick = () => {
      seen.push(name);
      if (name === "a") setImmediate(() => seen.push("a request"));
    };
    return startLoop({ name, schedule: { everyMs: 3_600_000 }, tick }, { log, clock: systemClock });
  });
  expect(seen).toEqual([]);
  while (seen.length < 4) await new Promise(setImmediate);
  expect(seen).toEqual(["a", "a request", "b", "c"]);
  await Promise.all(all.map((loop) => loop.stop()));
});

test("a loop that is stopped before its turn never ticks", async () => {
  let ticks = 0;
  const spec = { name: "late", schedule: { everyMs: 1 }, tick: () => void ticks++ };
  await startLoop(spec, { log: { error: () => {} }, clock: systemClock }).stop();
  expect(ticks).toBe(0);
});
