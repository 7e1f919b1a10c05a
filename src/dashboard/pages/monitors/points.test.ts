import { expect, test } from "bun:test";
import { pointsOf } from "./points.ts";

test("stored and seen values are one curve in the order of time", () => {
  const stored = [
    { at: "1970-01-01T00:00:20Z", value: 2 },
    { at: "1970-01-01T00:00:10Z", value: null },
  ];
  const seen = [
    [20, 2],
    [22, 3],
  ] as const;
  expect(pointsOf(stored, seen)).toEqual({ x: [10, 20, 22], values: [null, 2, 3] });
  expect(pointsOf(stored, seen, 15).x).toEqual([20, 22]);
});
