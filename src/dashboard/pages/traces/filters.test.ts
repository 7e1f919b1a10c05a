import { expect, test } from "bun:test";
import { pathOf } from "./filters.ts";

const pathWith = (values: Record<string, string>) => pathOf((name) => values[name], Date.parse("2026-01-02T00:00:30Z"));

test("filters of the address become parameters of the API", () => {
  expect(pathWith({})).toBe("/v1/traces?limit=50");
  expect(pathWith({ q: "a b", status: "error", nonsense: "x" })).toBe("/v1/traces?limit=50&q=a+b&status=error");
  expect(pathWith({ min_score: "0.5" })).toBe("/v1/traces?limit=50");
  expect(pathWith({ score: "tone", min_score: "0.5" })).toBe("/v1/traces?limit=50&score=tone&min_score=0.5");
});

test("a time before now is rounded to a minute, so that the address stays the same", () => {
  expect(pathWith({ time: "1d" })).toContain("since=2026-01-01T00%3A00%3A00.000Z");
  expect(pathWith({ time: "1y" })).toBe("/v1/traces?limit=50");
});
