import { expect, test } from "bun:test";
import { jsonPointer } from "./pointer.ts";

test("keys are escaped in the order that RFC 6901 gives, and an empty path is the whole document", () => {
  expect(jsonPointer(["a/b", "m~n", 0, ""])).toBe("/a~1b/m~0n/0/");
  expect(jsonPointer(["~1"])).toBe("/~01");
  expect(jsonPointer([])).toBe("");
});
