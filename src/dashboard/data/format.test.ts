import { expect, test } from "bun:test";
import * as format from "./format.ts";

const NOW = Date.UTC(2026, 10, 16, 12);
const at = (seconds: number) => new Date(NOW - seconds * 1000).toISOString();

test.each([
  [0, "0 B"],
  [1023, "1023 B"],
  [1536, "1.5 KiB"],
  [2 ** 30, "1 GiB"],
  [119.4 * 2 ** 30, "119.4 GiB"],
  [Number.NaN, "–"],
])("%p bytes are %s", (value, text) => expect(format.bytes(value)).toBe(text));

test.each([
  [0.012345, "0.0123"],
  [2640.4, "2,640"],
  [0.81, "0.81"],
  [-1.1234, "-1.12"],
  [0.00001, "1.00e-5"],
  [0, "0"],
])("the number %p is %s", (value, text) => expect(format.number(value)).toBe(text));

test.each([
  [0.012, "12 ms"],
  [8.2, "8.2 s"],
  [59.6, "59.6 s"],
  [88, "1 min 28 s"],
  [3725, "1 h 2 min"],
  [50 * 3600, "2 d 2 h"],
  [20 * 86_400, "20 d"],
])("%p seconds are %s", (value, text) => expect(format.duration(value)).toBe(text));

test.each([
  [2, "just now"],
  [8, "8 s ago"],
  [500, "8 min ago"],
  [-7200, "in 2 h"],
  [3 * 86_400, "3 d ago"],
])("%p seconds before now is %s", (seconds, text) => expect(format.ago(at(seconds), NOW)).toBe(text));

test.each([
  [12.5, "$12.50"],
  [0, "$0.00"],
  [0.0002, "$0.00020"],
  [0.0000004, "$0.00"],
  [1234.5, "$1,234.50"],
])("%p dollars are %s", (value, text) => expect(format.money(value)).toBe(text));

test("counts, shares and names", () => {
  expect(format.plural(1, "run")).toBe("1 run");
  expect(format.plural(1200, "run")).toBe("1,200 runs");
  expect(format.percent(0.913)).toBe("91 %");
  expect(format.words("waiting_for_memory")).toBe("Waiting for memory");
  expect([format.bytes(null), format.number(undefined), format.duration(null)]).toEqual(["–", "–", "–"]);
});
