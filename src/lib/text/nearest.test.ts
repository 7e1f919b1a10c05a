import { expect, test } from "bun:test";
import { openRandom } from "../random.ts";
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

test("S8: a limit of edits changes no distance within it", () => {
  const random = openRandom(8);
  const word = () => Array.from({ length: Math.floor(random() * 8) }, () => "abc"[Math.floor(random() * 3)]).join("");
  for (let i = 0; i < 2_000; i++) {
    const [a, b] = [word(), word()];
    const whole = editDistance(a, b);
    for (const most of [0, 1, 2, 3]) expect(editDistance(a, b, most)).toBe(whole <= most ? whole : Infinity);
  }
});
