import { read } from "bun:ffi";
import { expect, test } from "bun:test";
import { eachCopy } from "./row_copies.ts";

/** Words of the parameter of each call. */
function copies(stride: number, direction: "toDevice" | "toHost" = "toDevice") {
  const host = new Uint8Array(64);
  const calls: number[][] = [];
  eachCopy(direction, { at: 5000, stride }, host, { rows: 4, bytes: 10, stride: 16 }, (at) => {
    calls.push(Array.from({ length: 16 }, (_, i) => Number(read.u64(at, 8 * i))));
  });
  const start = calls[0]![direction === "toDevice" ? 3 : 10]!;
  return { calls, start };
}

test("rows are one copy", () => {
  const to = copies(1000);
  expect(to.calls).toEqual([[0, 0, 1, to.start, 0, 0, 16, 0, 0, 2, 0, 5000, 0, 1000, 10, 4]]);
  const from = copies(1000, "toHost");
  expect(from.calls).toEqual([[0, 0, 2, 0, 5000, 0, 1000, 0, 0, 1, from.start, 0, 0, 16, 10, 4]]);
});

test("rows that lie too far apart for one copy are copied one by one", () => {
  const { calls, start } = copies(2 ** 31);
  expect(calls.map((words) => [words[3]! - start, words[11], words[14], words[15]])).toEqual(
    [0, 1, 2, 3].map((row) => [16 * row, 5000 + row * 2 ** 31, 10, 1]),
  );
});
