import { expect, test } from "bun:test";
import { changeOf, chartOf, csvOf, tierOf } from "./words.ts";

test("scores and changes read well", () => {
  expect([changeOf(0.5, 0.38), changeOf(0.3, 0.31), changeOf(0.301, 0.3)]).toEqual(["+0.12", "−0.01", "±0.00"]);
  expect(tierOf("likely_ai")).toEqual({ text: "Likely generated", tone: "warn" });
});

test("a file name is never a formula and never breaks its line", () => {
  const csv = csvOf([{ name: '=cmd("x"),\n.png', error: "too large" }]);
  expect(csv).toBe('file,score,prediction,sha256,error\n"\'=cmd(""x""),\n.png","","","","too large"\n');
});

test("scores stand between the limits of the tiers, and the last one apart", () => {
  const { names, series, levels, yRange } = chartOf(
    "x",
    "model",
    [
      { name: "a", score: 0.2 },
      { name: "b", score: null },
    ],
    "all",
  );
  expect([names, yRange]).toEqual([
    ["a", "b"],
    [0, 1],
  ]);
  expect(series.map(({ label, values }) => [label, values])).toEqual([
    ["Score of each", [0.2, null]],
    ["all", [null, null]],
  ]);
  expect(levels?.map(({ y, label }) => `${y} ${label}`)).toEqual([
    "0.85 Generated",
    "0.55 Likely generated",
    "0.45 Uncertain",
    "0.15 Likely real",
  ]);
});
