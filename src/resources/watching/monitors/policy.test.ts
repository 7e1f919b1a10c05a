import { describe, expect, test } from "bun:test";
import { judge, levelOf, type Measurement, NEW_STATE, type Rule, type State, thresholdFault } from "./policy.ts";

const RULE: Rule = {
  comparison: "above",
  alert: 100,
  warning: 50,
  alertRecovery: null,
  warningRecovery: null,
  evaluations: 1,
  recoveryEvaluations: 1,
  noData: "no_data",
  minSamples: 1,
};
const OK: State = { ...NEW_STATE, severity: "ok" };

type Value = number | null;
const series = (values: readonly Value[], samples: number | null = 10): Measurement[] =>
  values.map((value, at) => ({ at, value, samples: value === null ? 0 : samples }));

/** The severity after each measurement, with `!` for an event of trouble and `.` for one of recovery. */
function play(rule: Rule, values: readonly Value[], options: { from?: State; mutedUntil?: number } = {}): string[] {
  let state = options.from ?? OK;
  return series(values).map((measurement) => {
    const { state: next, changes } = judge([measurement], rule, state, options.mutedUntil);
    state = next;
    const mark = { triggered: "!", recovered: ".", none: "" }[changes[0]?.event ?? "none"];
    return next.severity + mark;
  });
}

const HYSTERESIS = { ...RULE, alertRecovery: 80, warningRecovery: 40 };
const SLOW = { ...RULE, evaluations: 3, recoveryEvaluations: 2 };
const BELOW: Rule = { ...RULE, comparison: "below", alert: 10, warning: 20, alertRecovery: 15, warningRecovery: 25 };

const CASES: [what: string, rule: Rule, values: Value[], expected: string[]][] = [
  ["a threshold itself is not beyond it", RULE, [50, 51, 100, 101], ["ok", "warning!", "warning", "alert!"]],
  ["one measurement may jump to alert and back", RULE, [200, 0], ["alert!", "ok."]],
  ["an alert that eases is an event too", RULE, [200, 60, 0], ["alert!", "warning!", "ok."]],
  ["the same severity makes one event", RULE, [60, 70, 80, 10, 10], ["warning!", "warning", "warning", "ok.", "ok"]],
  ["an alert stays until its recovery value", HYSTERESIS, [101, 99, 81, 80], ["alert!", "alert", "alert", "warning!"]],
  ["a warning stays until its recovery value", HYSTERESIS, [51, 45, 41, 40], ["warning!", "warning", "warning", "ok."]],
  ["values between do not raise the severity", HYSTERESIS, [45, 50, 45], ["ok", "ok", "ok"]],
  [
    "below: the low side is bad",
    BELOW,
    [20, 19, 9, 14, 15, 24, 25],
    ["ok", "warning!", "alert!", "alert", "warning!", "warning", "ok."],
  ],
  ["a rise takes N measurements in a row", SLOW, [60, 60, 10, 60, 60, 60], ["ok", "ok", "ok", "ok", "ok", "warning!"]],
  ["alerts count as warnings in a row", SLOW, [60, 200, 200, 200], ["ok", "ok", "warning!", "alert!"]],
  [
    "a fall takes M measurements in a row",
    SLOW,
    [200, 200, 200, 10, 200, 10, 10],
    ["ok", "ok", "alert!", "alert", "alert", "alert", "ok."],
  ],
  [
    "measurements below alert end an alert",
    SLOW,
    [200, 200, 200, 60, 10, 10],
    ["ok", "ok", "alert!", "alert", "warning!", "ok."],
  ],
  [
    "no data is its own severity, without an event",
    RULE,
    [200, null, 200, null, 10],
    ["alert!", "no_data", "alert", "no_data", "ok."],
  ],
  ["no data of a healthy monitor makes no event", RULE, [10, null, 10], ["ok", "no_data", "ok"]],
  ["no data takes N measurements too", SLOW, [10, null, null, null, 10], ["ok", "ok", "ok", "no_data", "ok"]],
  ["no data breaks a run", SLOW, [60, 60, null, 60, 60], ["ok", "ok", "ok", "ok", "ok"]],
  ["no data may count as ok", { ...RULE, noData: "ok" }, [200, null], ["alert!", "ok."]],
  ["no data may count as alert", { ...RULE, noData: "alert" }, [10, null, 10], ["ok", "alert!", "ok."]],
  ["no data keeps the recovery value of an alert", HYSTERESIS, [101, null, 90], ["alert!", "no_data", "alert"]],
  ["an alert alone needs no warning", { ...RULE, warning: null }, [60, 200, 60], ["ok", "alert!", "ok."]],
  ["a warning alone needs no alert", { ...RULE, alert: null }, [1e9, 0], ["warning!", "ok."]],
];

test.each(CASES)("%s", (_what, rule, values, expected) => {
  expect(play(rule, values)).toEqual(expected);
});

test("a new monitor without data says so, and its first good measurement makes no event", () => {
  expect(play(RULE, [null, 10], { from: NEW_STATE })).toEqual(["no_data", "ok"]);
});

test("fewer samples than min_samples are no data; a gauge has no samples to count", () => {
  const rule = { ...RULE, minSamples: 5 };
  expect(levelOf({ at: 0, value: 200, samples: 4 }, rule, "ok")).toBe("no_data");
  expect(levelOf({ at: 0, value: 200, samples: 5 }, rule, "ok")).toBe("alert");
  expect(levelOf({ at: 0, value: 200, samples: null }, rule, "ok")).toBe("alert");
});

describe("a muted monitor", () => {
  test("changes its severity without an event, and tells what is left when the mute ends", () => {
    expect(play(RULE, [200, 200, 200, 10], { mutedUntil: 2 })).toEqual(["alert", "alert", "alert!", "ok."]);
  });
  test("never tells of a trouble that came and went", () => {
    expect(play(RULE, [200, 10, 10], { mutedUntil: 2 })).toEqual(["alert", "ok", "ok"]);
  });
  test("tells after the mute of a recovery within it", () => {
    expect(play(RULE, [200, 10, 10], { from: OK, mutedUntil: 2 })).toEqual(["alert", "ok", "ok"]);
    const alerting: State = { ...OK, severity: "alert", level: "alert", notified: "alert" };
    expect(play(RULE, [10, 10, 10], { from: alerting, mutedUntil: 2 })).toEqual(["ok", "ok", "ok."]);
  });
});

test("a series gives the same as its measurements one by one", () => {
  const values = [60, 200, 200, 200, null, null, null, 10, 60, 10, 10];
  const whole = judge(series(values), SLOW, OK);
  let state = OK;
  const changes = series(values).flatMap((measurement) => {
    const one = judge([measurement], SLOW, state);
    state = one.state;
    return one.changes;
  });
  expect(whole).toEqual({ state, changes });
  expect(changes.map(({ from, to, event }) => [from, to, event])).toEqual([
    ["ok", "warning", "triggered"],
    ["warning", "alert", "triggered"],
    ["alert", "no_data", null],
    ["no_data", "alert", null],
    ["alert", "warning", "triggered"],
    ["warning", "ok", "recovered"],
  ]);
});

const NONE = { alert: null, warning: null, alertRecovery: null, warningRecovery: null };
test.each([
  ["none at all", "above", {}, "alert"],
  ["a warning above the alert", "above", { alert: 1, warning: 2 }, "alert"],
  ["a warning below the alert, where low is bad", "below", { alert: 2, warning: 1 }, "alert"],
  ["an alert that ends above itself", "above", { alert: 1, alertRecovery: 2 }, "alert_recovery"],
  ["a recovery without its threshold", "above", { alert: 1, warningRecovery: 2 }, "warning_recovery"],
  [
    "a warning that ends below itself, where low is bad",
    "below",
    { warning: 2, warningRecovery: 1 },
    "warning_recovery",
  ],
] as const)("thresholds with %s are refused", (_what, comparison, given, field) => {
  expect(thresholdFault(comparison, { ...NONE, ...given })?.field).toBe(field);
});

test("thresholds in order are accepted", () => {
  expect(thresholdFault("above", { alert: 2, warning: 1, alertRecovery: 1.5, warningRecovery: 1 })).toBeUndefined();
  expect(thresholdFault("below", { alert: 1, warning: 2, alertRecovery: 1, warningRecovery: 3 })).toBeUndefined();
});
