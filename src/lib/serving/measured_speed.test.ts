import { expect, test } from "bun:test";
import { fasterDecoder, type Measured, ratioOf, type Speed, Speeds, withMeasured } from "./measured_speed.ts";

const speed = (prompt: number, ...rates: number[]): Speed => ({
  prompt,
  answers: rates.map((rate, i) => ({ streams: [1, 8, 32][i] ?? 64, rate })),
});
const measured = (more: Partial<Measured> = {}): Measured => ({
  gpu: "card",
  sha256: "a".repeat(64),
  verk: "1",
  measured_at: "2026-01-01T00:00:00.000Z",
  own: speed(1000, 100),
  library: speed(1000, 100),
  ...more,
});
const place = { gpu: "card", sha256: "a".repeat(64), parallel: 8 };

test("twice the speed of everything is a ratio of two", () => {
  expect(ratioOf(speed(2000, 200, 800), speed(1000, 100, 400), 8)).toBeCloseTo(2);
  expect(ratioOf(speed(500, 50), speed(1000, 100), 8)).toBeCloseTo(0.5);
});

test("streams count only up to what a deployment has, and only where both were measured", () => {
  const own = speed(1e9, 100, 1);
  const library = speed(1e9, 50, 1000);
  expect(ratioOf(own, library, 1)).toBeCloseTo(2);
  expect(ratioOf(own, library, 8)).toBeLessThan(1);
  expect(ratioOf(own, speed(1e9, 50), 8)).toBeCloseTo(2);
});

test("slow prompts can outweigh fast answers", () => {
  expect(ratioOf(speed(100, 300), speed(10_000, 200), 1)).toBeLessThan(1);
});

test("the faster one is chosen for its card and file, and nothing where nothing was measured", () => {
  const speeds = { measured: [measured({ own: speed(1000, 10) })] };
  expect(fasterDecoder(speeds, place)).toBe("library");
  expect(fasterDecoder({ measured: [measured({ own: speed(1000, 400) })] }, place)).toBe("own");
  expect(fasterDecoder(speeds, { ...place, gpu: "other" })).toBeUndefined();
  expect(fasterDecoder(speeds, { ...place, sha256: "b".repeat(64) })).toBeUndefined();
});

test("a new measurement replaces the one of its card and file; the oldest of too many are dropped", () => {
  const first = withMeasured({ measured: [] }, measured());
  const twice = withMeasured(first, measured({ verk: "2" }));
  expect(twice.measured.map(({ verk }) => verk)).toEqual(["2"]);
  let all = twice;
  for (let i = 0; i < 250; i++) all = withMeasured(all, measured({ gpu: `card ${i}` }));
  expect(all.measured).toHaveLength(200);
  expect(all.measured[0]?.gpu).toBe("card 249");
  expect(Speeds.parse(JSON.parse(JSON.stringify(all)))).toEqual(all);
});
