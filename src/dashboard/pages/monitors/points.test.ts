import { expect, test } from "bun:test";
import { pointsOf } from "./points.ts";

test("stored changes, newest first, and seen values are one curve in the order of time", () => {
  const changes = [
    { created_at: "1970-01-01T00:00:20Z", value: 2 },
    { created_at: "1970-01-01T00:00:10Z", value: null },
  ];
  const seen = [
    [20, 2],
    [22, 3],
  ] as const;
  expect(pointsOf(changes, seen)).toEqual({ x: [10, 20, 22], values: [null, 2, 3] });
});
