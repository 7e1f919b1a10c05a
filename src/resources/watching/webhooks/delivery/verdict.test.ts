import { describe, expect, test } from "bun:test";
import {
  type AttemptEnd,
  type Delivery,
  dueAction,
  type Endpoint,
  enabled,
  firstState,
  held,
  judge,
  newDelivery,
  nextAttemptMs,
  type Outcome,
  settled,
} from "./verdict.ts";

const HOUR = 3_600_000;
const CREATED = 1_700_000_000_000;
const EXPIRY = CREATED + 72 * HOUR;
const delivery = newDelivery("dlv_1", CREATED);
const endpoint: Endpoint = { status: "enabled", consecutiveFailures: 3, disabledAtMs: null };
const answered = (status: number): Outcome => ({ answered: true, status });
const attempt = (outcome: Outcome, more: Partial<AttemptEnd> = {}): AttemptEnd => ({
  trigger: "scheduled",
  endedAtMs: CREATED + 100,
  outcome,
  ...more,
});

describe("an attempt", () => {
  test.each([200, 201, 204, 299])("answered with %i succeeds and resets the count of failures", (status) => {
    expect(judge(delivery, endpoint, attempt(answered(status)))).toEqual({
      delivery: { ...delivery, status: "succeeded", attemptCount: 1, scheduledCount: 1, dueAtMs: null },
      endpoint: { ...endpoint, consecutiveFailures: 0 },
      holdOthers: false,
    });
  });

  test.each([
    ...[100, 199, 300, 301, 302, 307, 308, 400, 401, 404, 409, 429, 500, 502, 503, 599].map(answered),
    ...(["timeout", "address_refused", "unresolved", "connection", "tls"] as const).map(
      (error): Outcome => ({ answered: false, error }),
    ),
  ])("P16 a failure: the outcome %j counts, and is tried again in five seconds", (outcome) => {
    expect(judge(delivery, endpoint, attempt(outcome))).toEqual({
      delivery: { ...delivery, attemptCount: 1, scheduledCount: 1, dueAtMs: CREATED + 5100 },
      endpoint: { ...endpoint, consecutiveFailures: 4 },
      holdOthers: false,
    });
  });

  test("P16 410: the delivery has failed and the endpoint is disabled at once", () => {
    const judged = judge(delivery, endpoint, attempt(answered(410)));
    expect(judged.delivery).toMatchObject({ status: "failed", dueAtMs: null });
    expect(judged.endpoint).toEqual({ status: "disabled", consecutiveFailures: 4, disabledAtMs: CREATED + 100 });
    expect(judged.holdOthers).toBe(true);
  });

  test("P7 a delivery counts once: only its first failed attempt counts toward the fifty", () => {
    const retried: Delivery = { ...delivery, attemptCount: 1, scheduledCount: 1 };
    const judged = judge(retried, { ...endpoint, consecutiveFailures: 49 }, attempt(answered(500)));
    expect(judged.endpoint).toEqual({ ...endpoint, consecutiveFailures: 49 });
    expect(judged.delivery).toMatchObject({ status: "pending", attemptCount: 2 });
  });

  test("P7 the fiftieth failed delivery in a row disables the endpoint and is held; the forty-ninth does not", () => {
    const [almost, full] = [48, 49].map((consecutiveFailures) =>
      judge(delivery, { ...endpoint, consecutiveFailures }, attempt(answered(500))),
    );
    expect(almost).toMatchObject({ endpoint: { status: "enabled" }, holdOthers: false });
    expect(full).toMatchObject({
      delivery: { status: "pending", dueAtMs: null },
      endpoint: { status: "disabled" },
      holdOthers: true,
    });
    expect(full!.endpoint).toMatchObject({ consecutiveFailures: 50, disabledAtMs: CREATED + 100 });
  });

  test("that fails after the window has closed exhausts the delivery, and one that succeeds there succeeds", () => {
    const late = { endedAtMs: EXPIRY + 5000 };
    expect(judge(delivery, endpoint, attempt(answered(500), late)).delivery.status).toBe("exhausted");
    expect(judge(delivery, endpoint, attempt(answered(204), late)).delivery.status).toBe("succeeded");
  });

  test.each(["disabled", "deleted"] as const)(
    "under way when its endpoint was %s ends by its own outcome",
    (status) => {
      const other: Endpoint = { status, consecutiveFailures: 60, disabledAtMs: status === "disabled" ? 5 : null };
      const success = judge(delivery, other, attempt(answered(200)));
      expect([success.delivery.status, success.endpoint]).toEqual(["succeeded", { ...other, consecutiveFailures: 0 }]);
      const failure = judge(delivery, other, attempt(answered(500)));
      const ended = status === "disabled" ? "pending" : "cancelled";
      expect(failure).toMatchObject({ delivery: { status: ended, dueAtMs: null }, holdOthers: false });
      expect(failure.endpoint).toEqual({ ...other, consecutiveFailures: 61 });
    },
  );
});

describe("an attempt by hand", () => {
  const byHand = { trigger: "manual" } as const;
  const waiting: Delivery = { ...delivery, attemptCount: 2, scheduledCount: 2, dueAtMs: CREATED + 65_000 };

  test("that fails leaves the schedule where it was, and counts only if it is the first attempt", () => {
    const judged = judge(waiting, endpoint, attempt(answered(500), byHand));
    expect(judged.delivery).toEqual({ ...waiting, attemptCount: 3 });
    expect(judged.endpoint.consecutiveFailures).toBe(3);
    expect(judge(delivery, endpoint, attempt(answered(500), byHand)).endpoint.consecutiveFailures).toBe(4);
  });

  test.each(["succeeded", "failed", "exhausted", "cancelled"] as const)("on a delivery that %s", (status) => {
    const done = settled(waiting, status);
    expect(judge(done, endpoint, attempt(answered(500), byHand)).delivery).toEqual({ ...done, attemptCount: 3 });
    expect(judge(done, endpoint, attempt(answered(200), byHand)).delivery.status).toBe("succeeded");
  });
});

describe("a due delivery", () => {
  test.each([
    ["before its time", delivery, "enabled", CREATED - 1, "wait"],
    ["at its time", delivery, "enabled", CREATED, "attempt"],
    ["long after its time", delivery, "enabled", EXPIRY - 1, "attempt"],
    ["at the end of the window", delivery, "enabled", EXPIRY, "expire"],
    ["of a disabled endpoint", delivery, "disabled", CREATED, "hold"],
    ["that is held", held(delivery), "disabled", CREATED, "wait"],
    ["that is held, window over", held(delivery), "disabled", EXPIRY, "expire"],
    ["that is held, endpoint enabled again", held(delivery), "enabled", CREATED, "resume"],
    ["that is held, endpoint enabled again, window over", held(delivery), "enabled", EXPIRY, "expire"],
    ["of a deleted endpoint, window over", delivery, "deleted", EXPIRY, "cancel"],
    ["that succeeded", settled(delivery, "succeeded"), "enabled", EXPIRY, "wait"],
    ["that was cancelled", settled(delivery, "cancelled"), "disabled", EXPIRY, "wait"],
  ] as const)("%s", (_name, row, status, now, action) => {
    expect(dueAction(row, { ...endpoint, status }, now)).toBe(action);
  });

  test("D6 clock: a due time further ahead than any wait is due, one within the longest wait is not", () => {
    const ahead = (ms: number) => dueAction({ ...delivery, dueAtMs: CREATED + ms }, endpoint, CREATED);
    expect([ahead(24 * HOUR), ahead(24 * HOUR + 1), ahead(365 * 24 * HOUR)]).toEqual(["wait", "attempt", "attempt"]);
  });

  test("shows its next attempt, and none when only its expiry is left", () => {
    const at = (dueAtMs: number | null) => nextAttemptMs({ ...delivery, dueAtMs });
    expect([at(CREATED), at(EXPIRY - 1), at(EXPIRY), at(null)]).toEqual([CREATED, EXPIRY - 1, null, null]);
  });
});

test.each([
  ["enabled", CREATED, { status: "pending", dueAtMs: CREATED }],
  ["disabled", CREATED, { status: "pending", dueAtMs: null }],
  ["deleted", CREATED, { status: "cancelled", dueAtMs: null }],
  ["enabled", EXPIRY, { status: "exhausted", dueAtMs: null }],
] as const)("a delivery that is made when its endpoint is %s", (status, now, expected) => {
  expect(firstState(delivery, { status }, now)).toMatchObject(expected);
});

test("an endpoint enabled again starts from nothing; a deleted one stays deleted", () => {
  const again: Endpoint = { status: "enabled", consecutiveFailures: 0, disabledAtMs: null };
  expect(enabled({ status: "disabled", consecutiveFailures: 50, disabledAtMs: 9 })).toEqual(again);
  expect(enabled({ ...endpoint, status: "deleted" }).status).toBe("deleted");
  expect(enabled(endpoint)).toBe(endpoint);
});
