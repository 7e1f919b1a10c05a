import { expect, test } from "bun:test";
import { FACTS } from "../../../resources/watching/monitors/metrics.ts";
import { firedText, inUnit, isMuted, METRICS, rule } from "./words.ts";

test("every metric of the server has words, with its unit and its targets", () => {
  for (const [metric, { unit, comparison, targets, operator }] of Object.entries(FACTS))
    expect(METRICS[metric as keyof typeof METRICS]).toMatchObject({
      unit,
      bad: comparison,
      targets: targets.map((target) => target.replace("!", "")),
      ...(operator ? { operator } : {}),
      ...Object.fromEntries(
        targets.flatMap((target) => (target.endsWith("!") ? [["needs", target.slice(0, -1)]] : [])),
      ),
    });
});

test("values have their unit, and a rule is a sentence", () => {
  expect(inUnit(2000, "ms")).toBe("2 s");
  expect(inUnit(0.05, "ratio")).toBe("5.0 %");
  expect(inUnit(null, "ms")).toBe("–");
  const thresholds = { alert: 2000, warning: 1000, alert_recovery: null, warning_recovery: null };
  expect(rule({ thresholds, comparison: "above", unit: "ms" })).toBe("Alert above 2 s, warning above 1 s");
  expect(rule({ thresholds: { ...thresholds, alert: null }, comparison: "below", unit: "usd" })).toBe(
    "Warning below $1,000.00",
  );
});

test("a preview is a sentence", () => {
  const none = { events: 0, alerts: 0, warnings: 0, alert_seconds: 0, warning_seconds: 0 };
  expect(firedText(none)).toBe("It would not have fired.");
  expect(firedText({ ...none, events: 1, alerts: 1, alert_seconds: 600 })).toBe(
    "It would have fired once: 1 alert (10 min).",
  );
  expect(firedText({ events: 3, alerts: 2, warnings: 1, alert_seconds: 2_400, warning_seconds: 300 })).toBe(
    "It would have fired 3 times: 2 alerts (40 min) and 1 warning (5 min).",
  );
});

test("a mute ends at its time", () => {
  expect(isMuted({ muted_until: "2026-01-01T00:00:00Z" }, Date.parse("2025-12-31T00:00:00Z"))).toBe(true);
  expect(isMuted({ muted_until: "2026-01-01T00:00:00Z" }, Date.parse("2026-01-02T00:00:00Z"))).toBe(false);
  expect(isMuted({ muted_until: null }, 0)).toBe(false);
});
