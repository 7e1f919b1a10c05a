import { expect, test } from "bun:test";
import { partsOf, rangesOf } from "./shares.ts";

test("a list is split where the cost is, in order and without a gap", () => {
  expect(rangesOf([1, 1, 1, 1], 2)).toEqual([
    { from: 0, to: 2 },
    { from: 2, to: 4 },
  ]);
  expect(rangesOf([4, 1, 1, 1, 1], 2)).toEqual([
    { from: 0, to: 1 },
    { from: 1, to: 5 },
  ]);
  expect(rangesOf([3], 3)).toEqual([
    { from: 0, to: 0 },
    { from: 0, to: 1 },
    { from: 1, to: 1 },
  ]);
  expect(rangesOf([], 2)).toEqual([
    { from: 0, to: 0 },
    { from: 0, to: 0 },
  ]);
  expect(rangesOf([0, 5, 0], 1)).toEqual([{ from: 0, to: 3 }]);
  for (const count of [1, 2, 3, 7]) {
    const costs = Array.from({ length: 40 }, (_, i) => (i * 7) % 11);
    const ranges = rangesOf(costs, count);
    expect([ranges[0]?.from, ranges.at(-1)?.to, ranges.length]).toEqual([0, 40, count]);
    for (const [i, { from }] of ranges.entries()) expect(from).toBe(ranges[i - 1]?.to ?? 0);
  }
});

test("each item goes to the part that has the least so far", () => {
  expect(partsOf([5, 3, 3, 1, 1], 2)).toEqual([0, 1, 1, 0, 0]);
  expect(partsOf([1, 1, 1], 3)).toEqual([0, 1, 2]);
  expect(partsOf([2, 2], 1)).toEqual([0, 0]);
});
