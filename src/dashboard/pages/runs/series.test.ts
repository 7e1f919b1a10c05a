import { expect, test } from "bun:test";
import { bandOf, bridged, curveOf, endsOf, joined, likelyRange, positionsOf, recentMean } from "./series.ts";
import type { Point } from "./types.ts";

const point = (step: number, values: Record<string, number>): Point => ({
  step,
  epoch: 0,
  time: new Date(1_000_000 + step * 2_000).toISOString(),
  values,
});

test("a gap of a thinned curve is bridged in proportion to the steps, and the ends stay open", () => {
  expect(bridged([null, 1, null, null, 4, null], [1, 2, 3, 5, 8, 9])).toEqual([null, 1, 1.5, 2.5, 4, null]);
  expect(bridged([], [])).toEqual([]);
  expect(bridged([null, null], [1, 2])).toEqual([null, null]);
});

test("a band needs the mean and the spread", () => {
  expect(bandOf([1, 2, null], [0.5, null, 1])).toEqual({ low: [0.5, null, null], high: [1.5, null, null] });
});

test("a band stays within what a value can be, where the spread tells it", () => {
  expect(bandOf([0.1, 0.9], [0.3, 0.3])).toEqual({ low: [0, 0.6000000000000001], high: [0.4, 1] });
  expect(bandOf([-0.9], [0.4])).toEqual({ low: [-1], high: [-0.5] });
  expect(bandOf([0.1, 0.9], [0.3, 0.6])).toMatchObject({ low: [-0.19999999999999998, expect.closeTo(0.3)] });
  expect(likelyRange([0.5, 7], [1, 2])).toBeUndefined();
});

test("points lie at their step, their seconds since the start, or the tokens or samples so far", () => {
  const points = [point(1, { num_tokens: 10 }), point(2, {}), point(3, { num_tokens: 30 })];
  const start = { startedAt: null, samplesPerStep: 8 };
  expect(positionsOf(points, "step", start)).toEqual([1, 2, 3]);
  expect(positionsOf(points, "time", start)).toEqual([0, 2, 4]);
  expect(positionsOf(points, "time", { ...start, startedAt: new Date(1_000_000).toISOString() })).toEqual([2, 4, 6]);
  expect(positionsOf(points, "tokens", start)).toEqual([10, 20, 30]);
  expect(positionsOf(points, "samples", start)).toEqual([8, 16, 24]);
  expect(positionsOf([], "time", start)).toEqual([]);
});

test("curves of different lengths share one axis", () => {
  const [a, b] = [
    { x: [1, 3], values: [1, 3] },
    { x: [2, 3, 4], values: [5, null, 7] },
  ];
  expect(joined([a, b])).toEqual({
    x: [1, 2, 3, 4],
    columns: [
      [1, 2, 3, null],
      [null, 5, 6, 7],
    ],
  });
});

test("a curve has the points of its key alone", () => {
  const points = [point(1, { loss: 1 }), point(2, { kl: 3 }), point(3, { loss: 2 })];
  expect(curveOf(points, "loss", [10, 20, 30])).toEqual({ x: [10, 30], values: [1, 2] });
  expect(curveOf(points, "reward", [10, 20, 30])).toBeUndefined();
  expect(endsOf(points, "loss")).toEqual({ first: 1, last: 2 });
  expect(endsOf(points, "reward")).toBeUndefined();
});

test("the recent mean is over the last values of its key", () => {
  const points = [point(1, { speed: 90 }), point(2, { speed: 4 }), point(3, { loss: 1 }), point(4, { speed: 0 })];
  expect(recentMean(points, "speed", 2)).toBe(2);
  expect(recentMean(points, "reward")).toBeUndefined();
});
