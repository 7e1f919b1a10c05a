import { expect, test } from "bun:test";
import { barOf, scrolledTo, shownRows, TALLEST_PX, topOf, totalOf } from "./scroll.ts";

const size = { rows: 5_000_000, rowHeight: 36, height: 540 };
const last = size.rows * size.rowHeight - size.height;

test("a short list scrolls as it is", () => {
  const short = { ...size, rows: 100 };
  expect(totalOf(short)).toBe(3_600);
  expect(scrolledTo(720, { top: 0, at: 0 }, short)).toEqual({ top: 720, at: 720 });
  expect(shownRows({ top: 720, at: 720 }, short)).toEqual({ first: 14, count: 27, offset: 504 });
});

test("a small move goes pixel by pixel, and a drag goes to the same share", () => {
  const wheel = scrolledTo(1_100, { top: 90_000_000, at: 1_000 }, size);
  expect(wheel.top).toBe(90_000_100);
  expect(scrolledTo(TALLEST_PX - size.height, { top: 0, at: 0 }, size).top).toBe(last);
  expect(scrolledTo(0, { top: last, at: TALLEST_PX }, size).top).toBe(0);
});

test("the bar follows after a pause, and every row can be reached", () => {
  expect(barOf(0, size)).toBe(0);
  expect(barOf(last, size)).toBe(TALLEST_PX - size.height);
  const top = topOf(3_141_592, size);
  const scroll = { top, at: barOf(top, size) };
  const { first, count, offset } = shownRows(scroll, size);
  expect(first <= 3_141_592 && first + count > 3_141_592).toBe(true);
  expect(offset).toBe(scroll.at - 6 * 36);
  expect(shownRows({ top: last, at: barOf(last, size) }, size).first + 27).toBeGreaterThanOrEqual(size.rows);
});
