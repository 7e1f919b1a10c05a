import { expect, test } from "bun:test";
import { flipsOf, histogramOf, meanOf, type Scored, sameShare } from "./compare.ts";

const scored = (prompt: string, old: number | null, now: number | null): Scored => ({
  prompt,
  completion: `${prompt}${old}`,
  old,
  now,
});

test("both histograms have the same bins, and the highest value is in the last one", () => {
  const { edges, old, now } = histogramOf([scored("a", 0, 1), scored("a", 1, 1), scored("a", null, 0.5)], 2);
  expect(edges).toEqual([0, 0.5, 1]);
  expect(old).toEqual([1, 1]);
  expect(now).toEqual([0, 3]);
  expect(histogramOf([scored("a", 1, 1)], 2).edges).toEqual([0.5, 1, 1.5]);
  expect(histogramOf([]).edges).toEqual([]);
});

test("a rank flips within the answers to one prompt", () => {
  const samples = [
    scored("a", 1, 0),
    scored("a", 0, 1),
    scored("a", 0.5, 0.5),
    scored("b", 9, 9),
    scored("b", 1, null),
  ];
  expect(flipsOf(samples).map(({ sample, from, to, of }) => [sample.old, from, to, of])).toEqual([
    [1, 1, 3, 3],
    [0, 3, 1, 3],
  ]);
  expect(flipsOf([scored("a", 1, 0), scored("b", 0, 1)]).map(({ from, to, of }) => [from, to, of])).toEqual([
    [1, 2, 2],
    [2, 1, 2],
  ]);
});

test("means leave out missing rewards, and equal groups are counted", () => {
  expect(meanOf([1, null, 2])).toBe(1.5);
  expect(meanOf([null])).toBeNull();
  expect(sameShare([scored("a", 1, 0), scored("a", 1, 1), scored("b", 0, 0), scored("b", 1, 0)], "old")).toBe(0.5);
  expect(sameShare([scored("a", 1, 1)], "old")).toBeNull();
});
