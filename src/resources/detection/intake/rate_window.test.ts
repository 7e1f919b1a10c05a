import { describe, expect, test } from "bun:test";
import { openRandom } from "../../../lib/random.ts";
import { enter } from "./rate.ts";

const SECOND = { most: 10, lengthMs: 1_000 };

describe("a window", () => {
  test("whatever the arrivals, no second holds more than it may, and none is refused that would fit", () => {
    const random = openRandom(7);
    const times: number[] = [];
    const admitted: number[] = [];
    for (let now = 0, i = 0; i < 20_000; i++, now += random() < 0.6 ? 0 : Math.floor(random() * 90)) {
      const within = admitted.filter((at) => at > now - 1_000).length;
      const verdict = enter(times, now, SECOND);
      expect(verdict === undefined).toBe(within < 10);
      if (verdict === undefined) admitted.push(now);
      else expect(enter([...times], now + verdict.waitMs, SECOND)).toBeUndefined();
    }
    for (const [i, at] of admitted.entries())
      expect((admitted[i + 10] ?? Number.POSITIVE_INFINITY) - at).toBeGreaterThan(999);
  });

  test("a clock that is set back keeps nobody out for long", () => {
    const times: number[] = [];
    for (let i = 0; i < 10; i++) enter(times, 5_000_000, SECOND);
    expect(enter(times, 5_000_000, SECOND)).toEqual({ waitMs: 1_000 });
    expect(enter(times, 1_000, SECOND)).toBeUndefined();
  });
});
