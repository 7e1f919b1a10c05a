import { expect, test } from "bun:test";
import { matchesTag, rangeOf } from "./range.ts";

test.each([
  [null, "whole"],
  ["bytes=0-3", { first: 0, last: 3 }],
  ["bytes=4-", { first: 4, last: 9 }],
  ["bytes=-3", { first: 7, last: 9 }],
  ["bytes=-30", { first: 0, last: 9 }],
  ["bytes=8-99", { first: 8, last: 9 }],
  ["BYTES= 1-2 ", { first: 1, last: 2 }],
  ["bytes=9-9", { first: 9, last: 9 }],
  ["bytes=10-", "none"],
  ["bytes=99999999999999999999-", "none"],
  ["bytes=-0", "none"],
  ["bytes=3-2", "whole"],
  ["bytes=0-1,3-4", "whole"],
  ["bytes=a-b", "whole"],
  ["bytes=-", "whole"],
  ["lines=0-3", "whole"],
] as const)("%p of ten bytes", (header, expected) => {
  expect(rangeOf(header, 10)).toEqual(expected);
});

test("nothing has no range", () => {
  expect(rangeOf("bytes=0-", 0)).toBe("none");
  expect(rangeOf("bytes=-1", 0)).toBe("none");
});

test("a tag is found among others, weak or as a star", () => {
  expect(matchesTag('"a", W/"b"', '"b"')).toBe(true);
  expect(matchesTag("*", '"b"')).toBe(true);
  expect(matchesTag('"a"', '"b"')).toBe(false);
  expect(matchesTag(null, '"b"')).toBe(false);
});
