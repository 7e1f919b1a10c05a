import { expect, test } from "bun:test";
import { gcra } from "./gcra.ts";

/** Plays arrivals (ms) and says which got through. */
function play(times: number[], rate: { perSecond: number; burst: number }) {
  let state: number | undefined;
  return times.map((now) => {
    const verdict = gcra(state, now, rate);
    if ("next" in verdict) state = verdict.next;
    return "next" in verdict;
  });
}

test("a burst passes, the next one waits exactly one interval", () => {
  expect(play([0, 0, 0, 0], { perSecond: 10, burst: 3 })).toEqual([true, true, true, false]);
  expect(play([0, 0, 0, 99, 100, 100], { perSecond: 10, burst: 3 })).toEqual([true, true, true, false, true, false]);
  expect(gcra(300, 0, { perSecond: 10, burst: 3 })).toEqual({ waitMs: 100 });
});

test("the rate holds over any long time, for every pattern of calls", () => {
  let seed = 7;
  const random = () => {
    seed = (seed * 48271) % 2147483647;
    return seed / 2147483647;
  };
  const times = Array.from({ length: 5000 }, () => Math.floor(random() * 10_000)).sort((a, b) => a - b);
  const passed = play(times, { perSecond: 50, burst: 20 }).filter(Boolean).length;
  expect(passed).toBeLessThanOrEqual(50 * 10 + 20);
  expect(passed).toBeGreaterThan(490);
});

test("a caller that rests gets its burst back, never more", () => {
  expect(play([0, 0, 60_000, 60_000, 60_000], { perSecond: 1, burst: 2 })).toEqual([true, true, true, true, false]);
});
