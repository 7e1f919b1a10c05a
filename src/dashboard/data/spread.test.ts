import { expect, test } from "bun:test";
import { spread } from "./spread.ts";

test("steps are spread from the last to the first", () => {
  expect(spread(0, 5)).toEqual([]);
  expect(spread(1, 5)).toEqual([1]);
  expect(spread(3, 5)).toEqual([3, 2, 1]);
  expect(spread(100, 4)).toEqual([100, 67, 34, 1]);
  expect(spread(9, 1)).toEqual([9]);
});
