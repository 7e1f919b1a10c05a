import { expect, test } from "bun:test";
import { figuresOf } from "./figures.ts";
import { adviceOf, answerOf, stateOf } from "./words.ts";

test("endpoints and answers say why", () => {
  const good = { enabled: true, disabled_reason: null, consecutive_failures: 0 };
  expect(stateOf(good)).toEqual({ status: "enabled" });
  expect(stateOf({ ...good, consecutive_failures: 3 }).reason).toBe("3 deliveries in a row failed");
  expect(stateOf({ ...good, enabled: false, disabled_reason: "gone" }).reason).toContain("410");
  const none = { response_code: null, error_code: "timeout", duration_ms: 10_000 };
  expect([answerOf({ ...ATTEMPT, ...none }), adviceOf({ ...ATTEMPT, ...none })]).toEqual([
    "no answer within 10 s",
    "Answer with a 2xx status first, and do the work afterwards.",
  ]);
  expect(answerOf(ATTEMPT)).toBe("204 in 34 ms");
  expect(adviceOf(ATTEMPT)).toBeUndefined();
  const advice = [301, 404, 422, 503].map((code) => adviceOf({ ...ATTEMPT, response_code: code }));
  expect(advice.map((each) => each?.split(" ")[0])).toEqual(["Redirects", "The", "The", "The"]);
  expect(advice[3]).toContain("failed");
});

test("figures of deliveries: shares of the settled, times of what was answered", () => {
  const of = (status: "succeeded" | "failed" | "pending", attempts: object[] = []) => ({
    id: status,
    status,
    attempts: attempts.map((each) => ({ ...ATTEMPT, ...each })),
  });
  const figures = figuresOf([
    of("pending"),
    of("failed", [{ response_code: null, error_code: "timeout", attempted_at: "2026-01-01T00:00:02Z" }]),
    of("succeeded", [
      { response_code: 500, duration_ms: 80, attempted_at: "2026-01-01T00:00:00Z" },
      { duration_ms: 20, attempted_at: "2026-01-01T00:00:01Z" },
    ]),
  ]);
  expect(figures).toMatchObject({ delivered: 1, waiting: 1, lost: 1, share: 0.5, half: 20, slow: 80 });
  expect(figures.x).toEqual([0, 1, 2].map((s) => Date.parse("2026-01-01T00:00:00Z") / 1000 + s));
  expect([figures.good, figures.bad, figures.ids]).toEqual([
    [null, 20, null],
    [80, null, 34],
    ["succeeded", "succeeded", "failed"],
  ]);
  expect(figuresOf([])).toMatchObject({ share: undefined, half: undefined, x: [] });
});

const ATTEMPT = {
  number: 1,
  attempted_at: "2026-01-01T00:00:00Z",
  trigger: "scheduled" as const,
  duration_ms: 34,
  response_code: 204,
  response_body: null,
  error_code: null,
  error_message: null,
};
