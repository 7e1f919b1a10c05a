import { afterEach, expect, jest, test } from "bun:test";
import type { Sample } from "../../src/lib/rewards/contract.ts";
import { createFrames, encodeFrame } from "../../src/lib/rewards/frames.ts";
import { Semaphore } from "../../src/platform/semaphore.ts";
import { createRewardPool } from "../../src/sandbox/reward/pool.ts";
import { openScorer } from "../../src/sandbox/reward/scorer.ts";
import type { SpawnedReward } from "../../src/sandbox/reward/spawn.ts";

afterEach(() => void jest.useRealTimers());

const LAYERS = ["language", "rlimits", "no_new_privs", "seccomp"];
const NONE = { stdout: "", stdout_bytes: 0 };
const ENTRY = { name: "reward", signature: "reward()", form: "sample", is_async: false, line: 1 };
type Request = { op: "load" | "call"; nonce: string; samples: Sample[] };
type Fake = SpawnedReward & { say: (frame: unknown) => void };

/** A fake process that says nothing by itself. */
function fakeProcess(pid: number, onRequest: (request: Request, fake: Fake) => void = () => {}): Fake {
  const frames = createFrames(64 << 20);
  const exited = Promise.withResolvers<null>();
  let isGone = false;
  let pipe: ReadableStreamDefaultController<Uint8Array> | undefined;
  const output = new ReadableStream<Uint8Array>({
    start(controller) {
      pipe = controller;
    },
  });
  const fake: Fake = {
    pid,
    jailed: true, // its memory is not watched
    output: output as unknown as AsyncIterable<Uint8Array>,
    exited: exited.promise,
    lastOutput: () => "",
    write: (bytes) => {
      for (const request of frames.push(bytes)) onRequest(request as Request, fake);
    },
    say: (frame) => isGone || pipe?.enqueue(encodeFrame(frame)),
    kill() {
      if (isGone) return;
      isGone = true;
      pipe?.close();
      exited.resolve(null);
    },
  };
  return fake;
}

const settings = { require: "process", memory_mib: 64, spare_seconds: 0 } as const;
const PERMITS = 3; // of the callers: the pool itself has no limit

test.each([
  ["", 0],
  [", when its time is over already", 1_000],
])("a spare that ends before it is ready%s affects no caller", async (_name, waited) => {
  jest.useFakeTimers();
  const started: Fake[] = [];
  const spawn = () => {
    const fake = fakeProcess(started.length);
    started.push(fake);
    if (started.length === 1) fake.say({ op: "ready", layers: LAYERS, start_ms: 1 });
    return fake;
  };
  const pool = createRewardPool({ settings: { ...settings, spare_seconds: 1 }, dataDir: "", spawn });
  const first = await pool.take("python");
  jest.advanceTimersByTime(2_000);
  expect(started).toHaveLength(2);
  await Promise.resolve(); // the spare has been spawned
  jest.advanceTimersByTime(waited);
  started[1]?.kill();
  await started[1]?.exited;
  await first.close();
  await pool.close();
  jest.useRealTimers();
  await Bun.sleep(0); // an unhandled rejection fails the test here
});

test("a spare starts two seconds after the last process that was taken", async () => {
  jest.useFakeTimers();
  const started: Fake[] = [];
  const spawn = () => {
    const fake = fakeProcess(started.push(started[0] as Fake));
    started[started.length - 1] = fake;
    fake.say({ op: "ready", layers: LAYERS, start_ms: 1 });
    return fake;
  };
  const pool = createRewardPool({ settings: { ...settings, spare_seconds: 60 }, dataDir: "", spawn });
  await pool.take("python");
  jest.advanceTimersByTime(1_500);
  await pool.take("python");
  jest.advanceTimersByTime(1_500);
  expect(started).toHaveLength(2);
  jest.advanceTimersByTime(500);
  expect(started).toHaveLength(3);
  jest.useRealTimers();
  await pool.close();
});

test("a caller that leaves while a process starts does not wait until the code is loaded", async () => {
  const caller = new AbortController();
  const spawn = () => {
    const fake = fakeProcess(1);
    fake.say({ op: "ready", layers: LAYERS, start_ms: 1 });
    caller.abort(new Error("left"));
    return fake;
  };
  const pool = createRewardPool({ settings, dataDir: "", spawn });
  const code = { language: "python", source: "", params: {}, seed: 1 } as const;
  const limits = { sampleMs: 600_000, batchMs: 600_000 };
  const opening = openScorer(pool, { parts: [{ name: "a", weight: 1, code }], limits, signal: caller.signal });
  expect(await opening.catch((error: Error) => error.message)).toBe("left");
});

/** The same numbers every time. */
function createChance(seed: number) {
  let state = seed;
  const chance = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  return { chance, moment: () => Bun.sleep(chance() * 3) };
}

test("for any end at any moment: rewards are right, no caller has more processes than permits, none is left", async () => {
  const { chance, moment } = createChance(7);
  const alive = new Set<Fake>();
  const onRequest = async ({ op, nonce, samples }: Request, fake: Fake) => {
    await moment();
    if (chance() < 0.1) return fake.kill();
    if (op === "load") return fake.say({ op: "loaded", nonce, entrypoints: [ENTRY], environments: [], ...NONE });
    for (const [from, { row }] of samples.entries()) {
      if (chance() < 0.1) return fake.kill();
      fake.say({ op: "outcomes", nonce, from, outcomes: [{ value: row["n"], fault: null, ms: 0 }] });
      if (chance() < 0.2) await moment();
    }
    fake.say({ op: "done", nonce, ...NONE });
  };
  const spawn = async () => {
    await moment();
    if (chance() < 0.05) throw new Error("too many open files");
    const fake = fakeProcess(alive.size, (request, self) => void onRequest(request, self));
    alive.add(fake);
    void fake.exited.then(() => alive.delete(fake));
    const layers = chance() < 0.05 ? ["language"] : LAYERS;
    void moment().then(() => (chance() < 0.05 ? fake.kill() : fake.say({ op: "ready", layers, start_ms: 1 })));
    return fake;
  };
  const pool = createRewardPool({ settings, dataDir: "", spawn });
  const samples = [0, 1, 2, 3].map((n) => ({ prompt: "", completion: "", row: { n } }));
  const code = { language: "python", source: "", params: {}, seed: 1 } as const;
  const parts = ["a", "b", "c"].map((name) => ({ name, weight: 1, code }));
  const permits = Semaphore.unshared("a test", { permits: PERMITS });
  let scored = 0;

  const work = async () => {
    const caller = new AbortController();
    if (chance() < 0.5)
      void moment()
        .then(moment)
        .then(moment)
        .then(() => caller.abort(new Error("left")));
    const { signal } = caller;
    const some = parts.slice(0, 1 + Math.floor(chance() * 3));
    const limits = { sampleMs: 60_000, batchMs: 1_000 };
    const release = await permits.acquire({ workspaceId: "ws" }, { permits: some.length });
    const scorer = await openScorer(pool, { parts: some, limits, signal }).catch(() => undefined);
    const batch = await scorer?.score(samples, signal).catch(() => undefined);
    for (const { index, reward } of batch?.results ?? []) {
      if (reward === null) continue;
      expect(reward).toBe(index * some.length);
      scored++;
    }
    await scorer?.close();
    expect(alive.size).toBeLessThanOrEqual(PERMITS);
    release?.();
  };
  for (let round = 0; round < 20 || scored <= 20; round++) await Promise.all([work(), work(), work()]);
  expect(alive.size).toBe(0); // each scorer has closed what it took
  await pool.close();
  expect(alive.size).toBe(0);
});
