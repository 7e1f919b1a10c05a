import { expect, test } from "bun:test";
import {
  desiredReplicas,
  hasWaitedTooLong,
  isParkable,
  isRestartDue,
  judgeLoss,
  loadDeadlineMs,
  mayPark,
  restartDelayMs,
  whyNever,
} from "./policy.ts";

const row = {
  status: "serving" as const,
  parked: false,
  minReplicas: 1,
  maxReplicas: 4,
  idleTimeoutSeconds: 60,
  pinned: false,
};
const calm = { inflight: 0, parallel: 8, idleMs: 0, ready: 1 };

test.each([
  ["one, however small the floor", { minReplicas: 0 }, {}, 1],
  ["the floor, without traffic", { minReplicas: 2 }, {}, 2],
  ["one more as soon as the slots of one are full", {}, { inflight: 9 }, 2],
  ["never more than the ceiling", {}, { inflight: 1000 }, 4],
  ["what runs is kept while it was busy a moment ago", {}, { ready: 3, idleMs: 59_999 }, 3],
  ["back to the floor after the idle time", {}, { ready: 3, idleMs: 60_000 }, 1],
  ["none when parked", { parked: true }, { inflight: 9 }, 0],
  ["none when stopped", { status: "stopped" as const }, { inflight: 9 }, 0],
  ["down to a ceiling that was lowered", { maxReplicas: 1 }, { ready: 3 }, 1],
  ["the floor wins over a ceiling below it", { minReplicas: 3, maxReplicas: 2 }, {}, 3],
])("desired: %s", (_name, settings, traffic, want) => {
  expect(desiredReplicas({ ...row, ...settings }, { ...calm, ...traffic })).toBe(want);
});

test.each([
  ["idle long enough, and allowed to", { minReplicas: 0 }, { idleMs: 60_000 }, true],
  ["not a moment before", { minReplicas: 0 }, { idleMs: 59_999 }, false],
  ["not with a floor", {}, { idleMs: 60_000 }, false],
  ["not when pinned", { minReplicas: 0, pinned: true }, { idleMs: 60_000 }, false],
  ["not while it answers", { minReplicas: 0 }, { idleMs: 60_000, inflight: 1 }, false],
  ["not twice", { minReplicas: 0, parked: true }, { idleMs: 60_000 }, false],
  ["not while it loads", { minReplicas: 0, status: "provisioning" as const }, { idleMs: 60_000 }, false],
])("parked: %s", (_name, settings, traffic, want) => {
  expect(mayPark({ ...row, ...settings }, { ...calm, ...traffic })).toBe(want);
});

test("to make room an idle one is parked before its time, a pinned one never", () => {
  expect(isParkable({ ...row, minReplicas: 0 })).toBe(true);
  expect(isParkable({ ...row, minReplicas: 0, pinned: true })).toBe(false);
});

test.each([
  ["a failed wake is not terminal", { status: "provisioning" as const, waking: true, attempts: 9 }, false, "doze"],
  ["the first loss of a serving one", { status: "serving" as const, waking: false, attempts: 0 }, true, "sicken"],
  ["a boot that may succeed yet", { status: "provisioning" as const, waking: false, attempts: 2 }, true, "retry"],
  ["the restarts are used up", { status: "unhealthy" as const, waking: false, attempts: 3 }, true, "fail"],
  ["a cause that will not go away", { status: "provisioning" as const, waking: false, attempts: 0 }, false, "fail"],
  [
    "a crash loop of one that serves in between",
    { status: "serving" as const, waking: false, attempts: 3 },
    true,
    "fail",
  ],
] as const)("loss: %s", (_name, loss, canRetry, verdict) => {
  expect(judgeLoss(loss, canRetry, 3)).toBe(verdict);
});

test("restarts wait 1, 2, 4 seconds and five minutes at most", () => {
  expect([1, 2, 3, 20].map((attempt) => restartDelayMs(attempt, 1000))).toEqual([1000, 2000, 4000, 300_000]);
});

test.each([
  ["none is set", null, true],
  ["it has come", 1_000_000, true],
  ["it comes", 1_000_001, false],
  ["it comes after the longest pause", 1_300_000, false],
  ["a wrong clock set it", 1_300_001, true],
])("D6 restart: %s", (_name, at, due) => expect(isRestartDue(at, 1_000_000)).toBe(due));

test("a load of 100 GB from a slow disk is not taken for hung", () => {
  expect(loadDeadlineMs(100e9)).toBeGreaterThan(2_000_000);
});

test("what can never run here is told why, with both numbers", () => {
  const two = [
    { type: "H200", capacityBytes: 100e9 },
    { type: "H200", capacityBytes: 80e9 },
    { type: "L40S", capacityBytes: 40e9 },
  ];
  expect(whyNever(two, { type: "H200", count: 1, bytes: 100e9 })).toBeUndefined();
  expect(whyNever(two, { type: "H200", count: 2, bytes: 160e9 })).toBeUndefined();
  expect(whyNever(two, { type: "H200", count: 2, bytes: 162e9 })).toContain(
    "75.4 GiB on each device, and a device has 74.5 GiB",
  );
  expect(whyNever(two, { type: "L40S", count: 2, bytes: 1 })).toBe("this machine has 1 of type L40S, not 2");
});

test.each([
  [899_999, 900, false],
  [900_000, 900, true],
  [0, 1, false],
  [Number.MAX_SAFE_INTEGER, 0, false],
])("P7 capacity: a wait of %d ms with a limit of %d s is over: %p", (queuedMs, limit, isOver) => {
  expect(hasWaitedTooLong(queuedMs, limit)).toBe(isOver);
});
