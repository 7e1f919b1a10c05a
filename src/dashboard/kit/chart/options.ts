/** The look of a chart, in the terms of uPlot. */
import type uPlot from "uplot";
import { duration, number } from "../../data/format.ts";
import type { ChartProps } from "./chart.tsx";

type Latest = { readonly current: ChartProps };
type Colour = (token: string) => string;

export function optionsOf(latest: Latest, width: number, height: number, colour: Colour): uPlot.Options {
  const { series, log, sync } = latest.current;
  const lines: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  for (const { label, token = "--c1", band, dashed } of series) {
    const stroke = colour(token);
    lines.push({
      label,
      stroke,
      width: 1.8,
      spanGaps: true,
      points: { show: false },
      ...(dashed ? { dash: [5, 4] } : {}),
    });
    if (!band) continue;
    const edge = { stroke: "transparent", width: 0, points: { show: false } };
    bands.push({ series: [lines.length, lines.length + 1], fill: faded(stroke) });
    lines.push({ ...edge, label: `${label} high` }, { ...edge, label: `${label} low` });
  }
  return {
    width,
    height,
    series: lines,
    bands,
    legend: { show: false },
    padding: [10, latest.current.time ? 28 : 12, 0, 0], // the last time is wide
    cursor: {
      ...(sync === undefined ? {} : { sync: { key: sync } }),
      drag: { x: true, y: false },
      points: { size: 7 },
    },
    scales: { x: xScale(latest), y: log ? { distr: 3 } : {} },
    axes: axesOf(latest, colour),
    hooks: { draw: [(plot) => drawMarks(plot, latest, colour)], ready: [(plot) => addTip(plot, latest)] },
  };
}

function xScale({ current: { time, xMax } }: Latest): uPlot.Scale {
  if (xMax === undefined) return { time: time ?? false };
  return { time: false, range: (_, min, max) => [Math.min(min, 0), Math.max(max, xMax)] };
}

const faded = (rgb: string) => rgb.replace(/^rgb\((.*)\)$/, "rgba($1, 0.14)");

function axesOf(latest: Latest, colour: Colour): uPlot.Axis[] {
  const font = "11px system-ui, sans-serif";
  const common = { stroke: colour("--muted"), font, ticks: { show: false } };
  const grid = { stroke: colour("--line"), width: 1 };
  const values = (_: uPlot, all: number[]) => all.map((value) => (value === null ? "" : number(value)));
  const spans = (_: uPlot, all: number[]) => all.map((value) => (value === 0 ? "0" : duration(value)));
  const { time, span, x: places } = latest.current;
  const incrs = span ? SPANS : places.every(Number.isInteger) ? WHOLE : undefined;
  const x = time ? { values: times } : { values: span ? spans : values, ...(incrs ? { incrs } : {}) };
  return [
    { ...common, ...x, grid: { show: false }, size: 26, space: 60 },
    { ...common, grid, values, size: widthOf, space: 34 },
  ];
}

/** Distances between two labels of whole numbers: there is no step 1.5. */
const WHOLE = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((each) => each * 10 ** power)).flat();

const LEAST_PX = 34;
const PX_OF_LETTER = 6.6;

/** Room for the longest label. */
const widthOf = (_: uPlot, labels: readonly string[] | null): number =>
  Math.max(LEAST_PX, 14 + PX_OF_LETTER * Math.max(0, ...(labels ?? []).map((label) => label.length)));

const DAY_S = 86_400;
/** Steps of an axis that shows lengths of time, in seconds. */
const SPANS = [
  ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200],
  ...[1, 2, 5, 10, 20, 50, 100].map((days) => days * DAY_S),
];

/** Times of the x axis in one line: a day for a long axis, seconds for a short one. */
function times(_: uPlot, all: number[]): string[] {
  const span = (all.at(-1) ?? 0) - (all[0] ?? 0);
  const clock: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit" };
  if (span < 600) clock.second = "2-digit";
  const format: Intl.DateTimeFormatOptions = span > 2 * DAY_S ? { day: "numeric", month: "short" } : clock;
  return all.map((seconds) => new Date(seconds * 1000).toLocaleString("en-GB", format));
}

/** Vertical dashed lines with their words, which do not run out of the picture. */
function drawMarks(plot: uPlot, { current: { marks = [] } }: Latest, colour: Colour) {
  const { ctx, bbox } = plot;
  for (const { x, label, token = "--warn" } of marks) {
    const at = plot.valToPos(x, "x", true);
    if (at < bbox.left || at > bbox.left + bbox.width) continue;
    ctx.save();
    ctx.strokeStyle = colour(token);
    ctx.fillStyle = colour(token);
    ctx.setLineDash([4, 4]);
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = at > bbox.left + bbox.width * 0.7 ? "right" : "left";
    ctx.fillText(label, at + (ctx.textAlign === "left" ? 5 : -5), bbox.top + 12 * devicePixelRatio);
    ctx.restore();
  }
}

/** A note that follows the cursor, and the click that picks a point. */
function addTip(plot: uPlot, latest: Latest) {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  plot.over.append(tip);
  plot.over.addEventListener("mouseleave", () => {
    tip.hidden = true;
  });
  plot.over.addEventListener("mousemove", () => {
    const { idx, left = 0 } = plot.cursor;
    const { series, x, xLabel = "", time, span } = latest.current;
    tip.hidden = idx === null || idx === undefined;
    if (idx === null || idx === undefined) return;
    const at = x[idx] ?? 0;
    const head = time ? new Date(at * 1000).toLocaleString("en-GB") : span ? duration(at) : `${xLabel} ${number(at)}`;
    tip.textContent = [head, ...series.map(({ label, values }) => `${label} ${number(values[idx], 4)}`)].join("\n");
    tip.style.left = `${left > plot.over.clientWidth / 2 ? left - tip.offsetWidth - 12 : left + 12}px`;
  });
  plot.over.addEventListener("click", () => {
    const { idx } = plot.cursor;
    if (idx !== null && idx !== undefined) latest.current.onPick?.(idx);
  });
}
