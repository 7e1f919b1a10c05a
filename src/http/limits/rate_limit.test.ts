import { expect, test } from "bun:test";
import { fakeClock } from "../../../test/harness.ts";
import { HOUR_MS } from "../../lib/units.ts";
import { createLimiter } from "./rate_limit.ts";

const RATE = { perSecond: 1, burst: 3 };
const passed = (limiter: ReturnType<typeof createLimiter>, calls = 10) =>
  Array.from({ length: calls }, () => limiter.admits("key")).filter(Boolean).length;

test.each([
  ["ahead", HOUR_MS],
  ["back", -HOUR_MS],
])("D15 rate limit: a clock that is set %s neither opens nor closes it", (_where, by) => {
  const clock = fakeClock();
  const limiter = createLimiter(clock, RATE, "too many");
  expect(passed(limiter)).toBe(3);
  clock.set(by);
  expect(passed(limiter)).toBe(0);
  expect(() => limiter.spend("key")).toThrow("too many");
  clock.advance(1_000);
  expect(passed(limiter)).toBe(1);
});
