import { expect, test } from "bun:test";
import { type HealthAnswer, judgeLiveness, type Liveness } from "./liveness.ts";

const TIMEOUT_MS = 20_000;
const still = (running: { age_ms: number; expected_ms: number } | null = null): HealthAnswer => ({
  report: { decoded: false, decode_ms: null, running },
});
const decoded: HealthAnswer = { report: { decoded: true, decode_ms: 3, running: null } };

const CASES: [name: string, answer: HealthAnswer, quietMs: number, want: Liveness][] = [
  ["a decode call has succeeded", decoded, 5_000, "alive"],
  ["a decode call has succeeded at the last moment", decoded, TIMEOUT_MS, "alive"],
  [
    "a batch is younger than ten times its expected time",
    still({ age_ms: 89_999, expected_ms: 9_000 }),
    20_000,
    "alive",
  ],
  ["a batch is older than that, but only now", still({ age_ms: 90_000, expected_ms: 9_000 }), 19_999, "unknown"],
  ["a batch is older than that for the whole timeout", still({ age_ms: 110_000, expected_ms: 9_000 }), 20_000, "dead"],
  ["a batch that should be quick has twice the timeout", still({ age_ms: 39_999, expected_ms: 1 }), 20_000, "alive"],
  ["a batch that should be quick has no more than that", still({ age_ms: 40_000, expected_ms: 1 }), 20_000, "dead"],
  ["a batch without any measurement", still({ age_ms: 39_999, expected_ms: 0 }), 20_000, "alive"],
  ["no call is under way, and none returns", still(), 20_000, "dead"],
  ["no call is under way yet", still(), 5_000, "unknown"],
  ["the worker has not answered once", "silent", 10_000, "unknown"],
  ["the worker has not answered for the whole timeout", "silent", 20_000, "dead"],
  ["the probe failed", { error: "The model did not decode a probe" }, 5_000, "dead"],
];

test.each(CASES)("S1 liveness: %s", (_name, answer, quietMs, want) => {
  expect(judgeLiveness({ answer, quietMs, timeoutMs: TIMEOUT_MS })).toBe(want);
});
