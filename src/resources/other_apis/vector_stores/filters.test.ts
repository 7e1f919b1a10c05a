import { expect, test } from "bun:test";
import { Filter, passes } from "./filters.ts";

const FILE = { author: "ada", year: 1843, draft: false };

test.each([
  [{ type: "eq", key: "author", value: "ada" }, true],
  [{ type: "eq", key: "year", value: "1843" }, false],
  [{ type: "ne", key: "author", value: "ada" }, false],
  [{ type: "ne", key: "none", value: "ada" }, true],
  [{ type: "gt", key: "year", value: 1842 }, true],
  [{ type: "gte", key: "year", value: 1843 }, true],
  [{ type: "lt", key: "year", value: 1843 }, false],
  [{ type: "lte", key: "author", value: "b" }, true],
  [{ type: "lt", key: "none", value: 1 }, false],
  [{ type: "lt", key: "draft", value: true }, false],
  [{ type: "in", key: "author", value: ["ada", "grace"] }, true],
  [{ type: "nin", key: "author", value: ["ada"] }, false],
  [{ type: "nin", key: "none", value: ["ada"] }, true],
  [{ type: "eq", key: "constructor", value: "x" }, false],
])("%j: %p", (filter, passing) => expect(passes(Filter.parse(filter), FILE)).toBe(passing));

test("filters are joined by and and or, one inside the other", () => {
  const is = (key: string, value: string | number) => ({ type: "eq", key, value });
  const either = { type: "or", filters: [is("year", 1), is("author", "ada")] };
  expect(passes(Filter.parse({ type: "and", filters: [either, is("year", 1843)] }), FILE)).toBe(true);
  expect(passes(Filter.parse({ type: "and", filters: [either, is("year", 2)] }), FILE)).toBe(false);
});
