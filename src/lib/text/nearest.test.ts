import { expect, test } from "bun:test";
import { editDistance, nearest } from "./nearest.ts";

test.each([
  ["", "", 0],
  ["abc", "", 3],
  ["listen", "lisen", 1],
  ["listen", "litsen", 1],
  ["kitten", "sitting", 3],
] as const)("the distance from %p to %p is %d", (a, b, distance) => {
  expect(editDistance(a, b)).toBe(distance);
  expect(editDistance(b, a)).toBe(distance);
});

test("a small typo finds its name, a large one finds nothing", () => {
  const known = ["http.listen", "http.max_body_bytes", "log.level"];
  expect(nearest("http.lisen", known)).toBe("http.listen");
  expect(nearest("HTTP.MAX_BODY_BYTE", known)).toBe("http.max_body_bytes");
  expect(nearest("banana", known)).toBeUndefined();
  expect(nearest("x", [])).toBeUndefined();
});
