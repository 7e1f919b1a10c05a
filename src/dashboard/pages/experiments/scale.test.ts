import { expect, test } from "bun:test";
import { chartOf, type Figures, intervalText, pValue, scaleOf } from "./scale.ts";

const figures = (mean: number | null, low: number | null, high: number | null) =>
  ({ mean, ci_low: low, ci_high: high }) as Figures;

test("shares get the axis from 0 to 1, other scores an axis with room for all intervals", () => {
  expect(scaleOf([figures(0.5, 0.2, 0.8)])).toEqual({ low: 0, high: 1 });
  expect(scaleOf([figures(null, null, null)])).toEqual({ low: 0, high: 1 });
  expect(scaleOf([figures(10, 0, 20), figures(50, 40, 100)])).toEqual({ low: -5, high: 105 });
  expect(scaleOf([figures(7, null, null)])).toEqual({ low: 6.95, high: 7.05 });
});

test("the chart has a point and an interval for each target, and the baseline apart", () => {
  const rows = [
    { target: "base", figures: figures(0.4, 0.3, 0.5) },
    { target: "tuned", figures: figures(0.9, null, null) },
  ];
  const { series, names, yRange } = chartOf("exact", rows, "base");
  expect([names, yRange]).toEqual([
    ["base", "tuned"],
    [0, 1],
  ]);
  expect(series.map(({ label, values, band }) => [label, values, band?.low])).toEqual([
    ["Baseline", [0.4, null], [0.3, null]],
    ["Compared with it", [null, 0.9], [null, null]],
  ]);
  expect(rows.map((row) => intervalText(row.figures))).toEqual(["0.3 to 0.5", "–"]);
});

test("p values are short", () => {
  expect([0.25, 0.0312, 0.0004, 1].map(pValue)).toEqual(["0.25", "0.03", "less than 0.001", "1.0"]);
});
