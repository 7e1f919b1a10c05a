import { expect, test } from "bun:test";
import type { TrafficPoint } from "../../../resources/serving/deployments/traffic/schema.ts";
import { cachedShare, plotsOf } from "./plots.ts";

const POINT: TrafficPoint = {
  time: "2026-01-01T00:00:00.000Z",
  seconds: 60,
  requests: 120,
  failed_requests: 6,
  prompt_tokens: 600,
  cached_tokens: 150,
  completion_tokens: 1_200,
  answer_ms: { p50: 100, p95: 200, p99: 300 },
  first_token_ms: null,
  avg_wait_ms: 0,
  most_open: 4,
  most_waiting: 1,
};
const IDLE: TrafficPoint = { ...POINT, requests: 0, failed_requests: 0, prompt_tokens: 0, cached_tokens: 0 };

test("rates are those of a second, read tokens are those that were not in the cache", () => {
  const plots = plotsOf({ data: [POINT] });
  const values = plots.map(({ key, series }) => [key, series.map(({ values: [value] }) => value)]);
  expect(Object.fromEntries(values)).toEqual({
    requests: [1.9, 0.1],
    tokens: [20, 7.5, 2.5],
    first_token: [null, null, null],
    answer: [100, 200, 300],
    queue: [4, 1],
    cache: [0.25],
  });
  expect(plots[0]?.x).toEqual([Date.parse(POINT.time) / 1000]);
});

test("without a prompt there is no share of the cache", () => {
  expect(cachedShare(IDLE)).toBeNull();
});
