import { expect, test } from "bun:test";
import { jsonDepth } from "./json_depth.ts";

test.each([
  ["1", 0],
  ["{}", 1],
  ['{"a":[{"b":[]}]}', 4],
  ['"[[[["', 0],
  ['{"\\"[":"\\\\","x":[1]}', 2],
  ["[".repeat(1000), 1000],
  ["[][][]", 1],
  [`["${"[".repeat(9_000)}",[]]`, 2],
  [`["${"[".repeat(9_000)}\\"${"[".repeat(9_000)}\\\\",[]]`, 2],
  [`["${"[".repeat(5_000)}`, 1],
])("%s is %d deep", (text, depth) => {
  expect(jsonDepth(new TextEncoder().encode(text))).toBe(depth);
});
