import { expect, test } from "bun:test";
import { moved } from "./arrange.tsx";
import { CHUNK, chunksOf, MOST_WHOLE, nearParts, sorted, sortOf, sortText } from "./rows.ts";

test("rows without a value are last in both directions, and equal rows keep their order", () => {
  const rows = [{ n: 2 }, { n: null }, { n: 10 }, { n: 1 }];
  const by = ({ n }: { n: number | null }) => n;
  expect(sorted(rows, by, false).map(by)).toEqual([1, 2, 10, null]);
  expect(sorted(rows, by, true).map(by)).toEqual([10, 2, 1, null]);
  const equal = [{ name: "b" }, { name: "a" }, { name: "c" }];
  expect(sorted(equal, () => 1, true)).toEqual(equal);
});

test("texts are sorted as people do: without case, and by their numbers", () => {
  expect(sorted(["run-10", "Run-9", "a"], (text) => text, false)).toEqual(["a", "Run-9", "run-10"]);
});

test("an order is a text of the address and back", () => {
  for (const sort of [
    { key: "created", down: true },
    { key: "metric:rewards/margins", down: false },
  ])
    expect(sortOf(sortText(sort))).toEqual(sort);
  expect(sortOf(undefined)).toBeUndefined();
});

test("a long list is cut into parts with every row once; a short one is one part", () => {
  const rows = Array.from({ length: 60 * CHUNK + 1 }, (_, i) => `r${i}`);
  const parts = chunksOf(rows, (row) => row);
  expect(parts.flatMap((part) => part.rows)).toEqual(rows);
  expect(new Set(parts.map(({ key }) => key)).size).toBe(61);
  expect(chunksOf(rows.slice(0, MOST_WHOLE), (row) => row)).toHaveLength(1);
});

test("the parts on the screen are drawn, and the space of the others keeps the height of the list", () => {
  const heights = [10, 20, 30, 40];
  expect(nearParts(heights, 0, 5)).toEqual({ first: 0, last: 0, above: 0, below: 90 });
  expect(nearParts(heights, 10, 31)).toEqual({ first: 1, last: 2, above: 10, below: 40 });
  expect(nearParts(heights, -500, -400)).toEqual({ first: 0, last: 0, above: 0, below: 90 });
  expect(nearParts(heights, 500, 900)).toEqual({ first: 3, last: 3, above: 60, below: 0 });
  expect(nearParts(heights, -500, 900)).toEqual({ first: 0, last: 3, above: 0, below: 0 });
});

test("an item moves by one place and not beyond the ends", () => {
  expect(moved(["a", "b", "c"], 2, -1)).toEqual(["a", "c", "b"]);
  expect(moved(["a", "b", "c"], 0, 1)).toEqual(["b", "a", "c"]);
  expect(moved(["a", "b"], 0, -1)).toEqual(["a", "b"]);
});
