import { expect, test } from "bun:test";
import { alarmsOf } from "./alarms.ts";

const at = (minute: number) => `2026-01-01T00:${String(minute).padStart(2, "0")}:00Z`;
type Severity = "ok" | "warning" | "alert" | "no_data";
/** Newest first, one a minute. */
const changesOf = (...severities: Severity[]) =>
  severities
    .slice(1)
    .map((severity, i) => ({
      id: `evt_${i}`,
      severity,
      previous_severity: severities[i] ?? "ok",
      value: i * 10,
      muted: i === 0,
      event: i === 4 ? ("monitor.triggered" as const) : null,
      created_at: at(i),
    }))
    .reverse();

test("alarms have a beginning, an end, and the value at which they were worst", () => {
  expect(alarmsOf(changesOf("ok", "warning", "alert", "warning", "ok", "alert"))).toEqual([
    { id: "evt_4", severity: "alert", began: at(4), ended: null, value: 40, sent: "webhooks" },
    { id: "evt_0", severity: "alert", began: at(0), ended: at(3), value: 10, sent: "muted" },
  ]);
  expect(alarmsOf(changesOf("ok", "alert", "no_data", "ok")).map(({ ended }) => ended)).toEqual([at(1)]);
});

test("an alarm that began before the loaded history has no beginning", () => {
  expect(alarmsOf(changesOf("alert", "ok"))).toEqual([
    { id: "evt_0", severity: "alert", began: null, ended: at(0), value: null, sent: "no" },
  ]);
  expect(alarmsOf([])).toEqual([]);
});
