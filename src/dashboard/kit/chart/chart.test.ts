import { expect, test } from "bun:test";
import { stacked } from "./bars.ts";
import { csvOf, fileName, pathOf, pictureOf, svgOf } from "./save.ts";
import type { Content } from "./series.ts";
import { hasPositive, positive, smoothed } from "./smooth.ts";
import { nameTexts, noteLines, ticksOf } from "./words.ts";

test("ticks are round numbers inside the range", () => {
  expect(ticksOf(0, 1, 4)).toEqual([0, 0.5, 1]);
  expect(ticksOf(0.02, 0.98, 5)).toEqual([0.2, 0.4, 0.6, 0.8]);
  expect(ticksOf(-3, 1_234, 4)).toEqual([0, 500, 1_000]);
  expect(ticksOf(1e-7, 5e-7, 4)).toEqual([1e-7, 2e-7, 3e-7, 4e-7, 5e-7]);
  expect(ticksOf(5, 5)).toEqual([5]);
  expect(ticksOf(Number.NaN, 1)).toEqual([]);
});

test("smoothing keeps a constant, has no bias at the start, follows slowly, and keeps gaps", () => {
  for (const value of smoothed([3, 3, 3], 0.9)) expect(value).toBeCloseTo(3);
  const values = smoothed([0, null, 1, 1], 0.5);
  expect(values[1]).toBeNull();
  expect(values.map((value) => value && Number(value.toFixed(3)))).toEqual([0, null, 0.667, 0.857]);
  const raw = [1, 2];
  expect(smoothed(raw, 0)).toBe(raw);
});

test("a logarithmic axis leaves out 0 and below", () => {
  expect(positive([1, 0, -1, null])).toEqual([1, null, null, null]);
  expect([hasPositive([[0, -1]]), hasPositive([[0], [2]])]).toEqual([false, true]);
});

test("points without a line are points in a saved picture too", () => {
  const dots: Content = { label: "times", x: [1, 2, 3], series: [{ label: "time", values: [4, null, 6], dots: true }] };
  const svg = svgOf(dots, { width: 300, height: 200 }, () => "red");
  expect(svg.match(/<circle /g)).toHaveLength(2);
  expect(svg).not.toContain('class="l"');
});

const EVIL = `"><script>=1`;
const content: Content = {
  label: EVIL,
  x: [1, 2, 3],
  xLabel: "step",
  yLabel: "watts",
  series: [
    { label: "=a,b", values: [1, null, 3], band: { low: [0, null, 2], high: [2, null, 4] } },
    { label: EVIL, values: [5, 6, 7] },
  ],
};

test("the note at the crosshair has the place and each line that is shown, with its band", () => {
  expect(noteLines(content, 0, new Set([EVIL]))).toEqual(["step 1", "=a,b 1 (0 to 2)"]);
  expect(noteLines({ ...content, format: (value) => `${value} W` }, 1, new Set())).toEqual([
    "step 2",
    "=a,b –",
    `${EVIL} 6 W`,
  ]);
});

test("figures are saved with all digits, and no text of a user is a formula", () => {
  const head = `step,"'=a,b","'=a,b low","'=a,b high","""><script>=1"`;
  expect(csvOf(content)).toBe(`${head}\r\n1,1,0,2,5\r\n2,,,,6\r\n3,3,2,4,7\r\n`);
});

test("a saved picture names its axes and its lines, and no text of a user is markup", () => {
  const svg = pictureOf(content, { width: 700, height: 300 }, (token) => (token === "--c1" ? "red" : "grey"));
  expect(svg).not.toContain("<script");
  for (const part of [">step<", ">watts<", 'stroke="red"', "<title>"]) expect(svg).toContain(part);
  expect(svgOf(content, { width: 300, height: 100 }, () => "var(--c1)")).not.toContain("NaN");
  expect(fileName("Reward by step")).toBe("Reward-by-step");
  expect(fileName("///")).toBe("chart");
});

test("a gap begins a new part of the line", () => {
  const same = { x: (value: number) => value, y: (value: number) => value };
  expect(pathOf([1, 2, 3, 4], [1, null, 3, 4], same)).toBe("M1.0,1.0M3.0,3.0L4.0,4.0");
});

test("bars stand on each other, a hidden series takes no room, and days are dates of UTC", () => {
  const series = [
    { label: "a", values: [1, null] },
    { label: "b", values: [2, 4] },
  ];
  expect(stacked(series, new Set())).toEqual([
    [3, 4],
    [2, 4],
  ]);
  expect(stacked(series, new Set(["b"]))).toEqual([
    [1, 0],
    [0, 0],
  ]);
  const day = Date.UTC(2026, 0, 31) / 1000;
  const bars: Content = { label: "Cost", x: [day, day + 86_400], kind: "day", xLabel: "day", bars: true, series };
  expect(csvOf(bars)).toBe("day,a,b\r\n2026-01-31,1,2\r\n2026-02-01,,4\r\n");
  expect(noteLines(bars, 0, new Set())).toEqual(["31 Jan 2026", "a 1", "b 2"]);
  const svg = svgOf(bars, { width: 300, height: 100 }, (token) => token);
  expect(svg).not.toContain("NaN");
  expect(svg).toContain(">31 Jan<");
  const [top = 0, under = 0] = [...svg.matchAll(/V([\d.]+)h-/g)]
    .map(([, y]) => Number(y))
    .filter((_, i) => i % 2 === 0);
  expect(top).toBeLessThan(under);
});

test("names have a place each, their intervals are strokes, and levels have words, also in a saved picture", () => {
  const names: Content = {
    label: "scores",
    kind: "name",
    names: ["base", EVIL, "=tuned"],
    x: [0, 1, 2],
    yRange: [0, 1],
    levels: [{ y: 0.5, label: EVIL }],
    series: [
      {
        label: "mean",
        dots: true,
        values: [0.2, null, 0.9],
        band: { low: [0.1, null, null], high: [0.3, null, null] },
      },
    ],
  };
  expect(noteLines(names, 0, new Set())).toEqual(["base", "mean 0.2 (0.1 to 0.3)"]);
  expect(noteLines(names, 1, new Set())).toEqual([EVIL]);
  const svg = pictureOf(names, { width: 600, height: 300 }, (token) => token);
  expect(svg.match(/<circle /g)).toHaveLength(2);
  expect(svg.match(/stroke-width="2"/g)).toHaveLength(1);
  expect(svg).not.toContain(EVIL);
  expect(svg).toContain(">base</text>");
  expect(csvOf(names).split("\r\n").slice(0, 2)).toEqual(["x,mean,mean low,mean high", "base,0.2,0.1,0.3"]);
  expect(csvOf(names)).toContain("'=tuned,0.9");
  expect(nameTexts(["a long name of a model", "b"], 200)).toEqual([
    { at: 0, text: "a long name o…" },
    { at: 1, text: "b" },
  ]);
  expect(nameTexts(Array.from({ length: 40 }, String), 560).map(({ at }) => at)).toEqual([
    0, 4, 8, 12, 16, 20, 24, 28, 32, 36,
  ]);
});
