import { expect, test } from "bun:test";
import { fakeClock } from "../../test/harness.ts";
import { DAY_MS, HOUR_MS } from "../lib/units.ts";
import { judge, judgeStart, TrustedClock } from "./trusted_clock.ts";

const YEAR_MS = 365 * DAY_MS;

test("D11 clock one year ahead: only uptime counts, and the right time counts at once", () => {
  const clock = fakeClock();
  const trusted = new TrustedClock(clock);
  const start = clock.now();
  clock.set(YEAR_MS);
  clock.advance(75_000);
  expect([trusted.now(), trusted.isSuspect]).toEqual([start + 75_000, true]);
  clock.set(-YEAR_MS);
  expect([trusted.now(), trusted.isSuspect]).toEqual([start + 75_000, false]);
});

test("D11 a jump ahead counts after a day of uptime", () => {
  const clock = fakeClock();
  const trusted = new TrustedClock(clock);
  clock.set(YEAR_MS);
  trusted.observe();
  clock.advance(DAY_MS - 1);
  expect(trusted.isSuspect).toBe(true);
  clock.advance(1);
  expect([trusted.now(), trusted.isSuspect]).toEqual([clock.now(), false]);
});

test("D11 a clock that is set back, or corrected a little, is believed", () => {
  const last = { trusted: 1_000 * DAY_MS, steady: 0, waited: 0 };
  for (const now of [0, 999 * DAY_MS, last.trusted + HOUR_MS])
    expect(judge(last, now, 0)).toEqual({ trusted: now, steady: 0, waited: 0 });
});

test("D11 a restart: three days off are believed, a month waits for a day of uptime over all restarts", () => {
  const kept = { trusted: 1_000 * DAY_MS, waited: 0 };
  const threeDays = kept.trusted + 3 * DAY_MS;
  expect(judgeStart(kept, threeDays, 5)).toEqual({ trusted: threeDays, steady: 5, waited: 0 });
  const month = kept.trusted + 30 * DAY_MS;
  const first = judge(judgeStart(kept, month, 0), month + 20 * HOUR_MS, 20 * HOUR_MS);
  expect(first).toMatchObject({ trusted: kept.trusted + 20 * HOUR_MS, waited: 20 * HOUR_MS });
  const second = judge(judgeStart(first, month + DAY_MS, 0), month + DAY_MS + 4 * HOUR_MS, 4 * HOUR_MS);
  expect(second).toMatchObject({ trusted: month + DAY_MS + 4 * HOUR_MS, waited: 0 });
  expect(judgeStart(undefined, month, 0)).toMatchObject({ trusted: month });
});

test("the time is whole milliseconds also while the clock is ahead, because rows keep it", () => {
  let aheadMs = 0;
  let steady = 0.25;
  const clock = new TrustedClock({ now: () => Date.UTC(2026, 0, 1) + aheadMs, steady: () => steady });
  aheadMs = YEAR_MS;
  steady += 10.5;
  expect(clock.now()).toBe(Date.UTC(2026, 0, 1) + 10);
});
