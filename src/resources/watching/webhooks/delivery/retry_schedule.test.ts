import { describe, expect, test } from "bun:test";
import { type FailedAttempt, jitterOf, nextDueMs, parseRetryAfter } from "./retry_schedule.ts";

const SECOND = 1000;
const HOUR = 3_600_000;
const CREATED = 1_700_000_000_000;
const after = (attempts: number, more: Partial<FailedAttempt> = {}) => {
  const endedAtMs = more.endedAtMs ?? CREATED;
  return nextDueMs({ attempts, endedAtMs, createdAtMs: CREATED, random: 0.5, ...more }) - endedAtMs;
};

describe("the wait after a failed attempt", () => {
  test.each([
    [1, 5 * SECOND],
    [2, 60 * SECOND],
    [3, 600 * SECOND],
    [4, HOUR],
    [5, 6 * HOUR],
    [6, 12 * HOUR],
    [7, 12 * HOUR],
    [99, 12 * HOUR],
  ])("number %i is %i ms", (attempts, wait) => {
    expect(after(attempts)).toBe(wait);
  });

  test("is exact before the second attempt and within a tenth of the schedule before the others", () => {
    expect([after(1, { random: 0 }), after(1, { random: 0.999 })]).toEqual([5000, 5000]);
    expect([after(2, { random: 0 }), after(6, { random: 0 })]).toEqual([54_000, 10.8 * HOUR]);
    expect(after(6, { random: 1 - 2 ** -32 })).toBe(13.2 * HOUR);
  });

  test("is as long as the receiver asks, but not shorter than the schedule's and at most twice that", () => {
    expect([0, 5000, 7000, 10_000, 9e12].map((retryAfterMs) => after(1, { retryAfterMs }))).toEqual([
      5000, 5000, 7000, 10_000, 10_000,
    ]);
    expect(after(2, { random: 0, retryAfterMs: 9e12 })).toBe(120_000); // jitter does not shorten what was asked for
    expect(after(2, { random: 1, retryAfterMs: 60_000 })).toBe(66_000);
  });

  test("ends at the expiry when no attempt fits before it", () => {
    expect(after(7, { endedAtMs: CREATED + 61 * HOUR })).toBe(11 * HOUR);
    expect(after(7, { endedAtMs: CREATED + 60 * HOUR })).toBe(12 * HOUR);
    expect(after(1, { endedAtMs: CREATED + 73 * HOUR })).toBe(-HOUR);
  });

  test("never costs the last attempt because of what the receiver asks", () => {
    const endedAtMs = CREATED + 55 * HOUR;
    expect(after(7, { endedAtMs, retryAfterMs: 24 * HOUR })).toBe(17 * HOUR - 60 * SECOND);
  });

  test("cannot be asked for before there was an attempt", () => {
    expect(() => after(0)).toThrow("at least 1");
  });
});

test("eleven attempts in 72 hours: the last after 67 h 11 min 5 s", () => {
  const times = [CREATED];
  for (let due = CREATED; due < CREATED + 72 * HOUR; times.push(due)) due += after(times.length, { endedAtMs: due });
  expect(times.pop()).toBe(CREATED + 72 * HOUR);
  expect(times.length).toBe(11);
  expect(times.at(-1)! - CREATED).toBe(((67 * 60 + 11) * 60 + 5) * SECOND);
});

test("the jitter of an attempt is always the same, and spread evenly over deliveries and attempts", () => {
  const draws = Array.from({ length: 4000 }, (_, i) => jitterOf(`dlv_${i % 1000}`, Math.floor(i / 1000) + 2));
  expect(jitterOf("dlv_7", 3)).toBe(draws[1007]!);
  expect(new Set(draws).size).toBeGreaterThan(3990);
  for (let decile = 0; decile < 10; decile++)
    expect(draws.filter((draw) => Math.floor(draw * 10) === decile).length).toBeWithin(300, 500);
});

test.each([
  ["0", 0],
  ["120", 120_000],
  [" 7 ", 7000],
  ["Tue, 14 Nov 2023 22:14:20 GMT", 60_000],
  ["Tue, 14 Nov 2023 22:13:00 GMT", 0],
  ["-5", undefined],
  ["1.5", undefined],
  ["99999999999", undefined],
  ["Tue, 99 Nov 2023 22:14:20 GMT", undefined],
  ["2023-11-14T22:14:20Z", undefined],
  ["soon", undefined],
  ["", undefined],
  [null, undefined],
])("Retry-After: %s asks for %p ms", (header, wait) => {
  expect(parseRetryAfter(header, CREATED)).toBe(wait as number);
});
