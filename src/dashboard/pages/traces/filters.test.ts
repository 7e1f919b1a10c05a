import { expect, test } from "bun:test";
import { facetsPathOf, pathOf } from "./filters.ts";

const NOW = Date.parse("2026-01-02T00:00:30Z");
const pathWith = (values: Record<string, string>) => pathOf((name) => values[name], NOW);

test("filters of the address become parameters of the API", () => {
  expect(pathWith({})).toBe("/v1/traces?limit=50&source=requests");
  expect(pathWith({ q: "a b", status: "error", nonsense: "x" })).toBe(
    "/v1/traces?limit=50&q=a+b&status=error&source=requests",
  );
  expect(pathWith({ min_score: "0.5", source: "all" })).toBe("/v1/traces?limit=50");
  expect(pathWith({ score: "tone", min_score: "0.5", source: "chat" })).toBe(
    "/v1/traces?limit=50&score=tone&min_score=0.5&source=chat",
  );
});

test("rollouts are shown if they are asked for, or if the traces of a training are", () => {
  expect(pathWith({ job_id: "job_1" })).toBe("/v1/traces?limit=50&job_id=job_1");
  expect(pathWith({ job_id: "job_1", source: "rollout" })).toBe("/v1/traces?limit=50&job_id=job_1&source=rollout");
});

test("a time before now is rounded to a minute, so that the address stays the same", () => {
  expect(pathWith({ time: "1d" })).toContain("since=2026-01-01T00%3A00%3A00.000Z");
  expect(pathWith({ time: "1y" })).toBe("/v1/traces?limit=50&source=requests");
  const values: Record<string, string> = { time: "1h", user: "ann" };
  expect(facetsPathOf((name) => values[name], NOW)).toBe(
    "/v1/traces/facets?source=requests&since=2026-01-01T23%3A00%3A00.000Z",
  );
});
