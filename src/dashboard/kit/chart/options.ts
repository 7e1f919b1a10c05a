/** The look of a chart, in the terms of uPlot. */
import type uPlot from "uplot";
import { number } from "../../data/format.ts";
import { stacked, stepOf } from "./bars.ts";
import type { ChartProps } from "./chart.tsx";
import type { Content, Level, Mark } from "./series.ts";
import { hasPositive, positive, smoothed } from "./smooth.ts";
import { dayTexts, nameTexts, spanTexts, timeTexts } from "./words.ts";

/** The chart as it is shown now. */
export type View = ChartProps & { hidden: ReadonlySet<string> };
type Latest = { readonly current: View };
type Colour = (token: string) => string;
type Hooks = {
  onCursor: (plot: uPlot) => void;
  onScale: (plot: uPlot) => void;
  /** Draws bars. */
  barPaths: uPlot.Series.PathBuilder | undefined;
};

const isLog = ({ log, series }: View) => log === true && hasPositive(series.map(({ values }) => values));

export function optionsOf(
  latest: Latest,
  { width, height }: { width: number; height: number },
  colour: Colour,
  { onCursor, onScale, barPaths }: Hooks,
): uPlot.Options {
  const view = latest.current;
  const { series, sync, hidden, smoothing = 0 } = view;
  const lines: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  for (const { label, token = "--c1", band, dashed, dots } of series) {
    const stroke = colour(token);
    const show = !hidden.has(label);
    if (view.bars && barPaths) {
      lines.push({ label, show, stroke, fill: stroke, width: 0, paths: barPaths, points: { show: false } });
      continue;
    }
    const line = { spanGaps: true, show, ...(dashed ? { dash: [5, 4] } : {}) };
    const points = dots ? { show: true, size: 8, width: 0, fill: stroke } : { show: isLonely, fill: stroke, size: 5 };
    lines.push({ ...line, label, stroke, width: 1.8, points, ...(dots ? { paths: () => null } : {}) });
    if (smoothing > 0)
      lines.push({ ...line, label: "", stroke: faded(stroke, 0.3), width: 1, points: { show: false } });
    if (!band || dots) continue;
    const edge = { stroke: "transparent", width: 0, show, points: { show: false } };
    bands.push({ series: [lines.length, lines.length + 1], fill: faded(stroke, 0.14) });
    lines.push({ ...edge, label: "" }, { ...edge, label: "" });
  }
  return {
    width,
    height,
    series: lines,
    bands,
    legend: { show: false },
    padding: [10, view.kind === "time" ? 28 : 12, 0, 0], // the last time is wide
    cursor: {
      ...(sync === undefined ? {} : { sync: { key: sync } }),
      drag: { x: true, y: false },
      points: { size: 7 },
    },
    scales: { x: xScale(view), y: yScale(view) },
    axes: axesOf(view, colour),
    hooks: {
      draw: [
        (plot) => drawMarks(plot, latest.current.marks ?? [], colour),
        (plot) => drawLevels(plot, latest.current.levels ?? [], colour),
        (plot) => drawStrokes(plot, latest.current, colour),
      ],
      setCursor: [onCursor],
      setScale: [(plot, key) => key === "x" && onScale(plot)],
    },
  };
}

/** The columns of uPlot: x, then each line, followed by its raw values if it is smoothed, and its band. */
export function dataOf(view: View): uPlot.AlignedData {
  const { x, series, smoothing = 0, hidden } = view;
  if (view.bars) return [x, ...stacked(series, hidden)] as uPlot.AlignedData;
  const shown = isLog(view) ? positive : (values: Content["series"][number]["values"]) => values;
  const columns = series.flatMap(({ values, band, dots }) => [
    shown(smoothed(values, smoothing)),
    ...(smoothing > 0 ? [shown(values)] : []),
    ...(band && !dots ? [shown(band.high), shown(band.low)] : []),
  ]);
  return [x, ...columns] as uPlot.AlignedData; // uPlot reads the columns and changes none
}

/** A run that still grows has its last step at the right: the axis does not move. A chosen part is shown as it is. */
function xScale({ kind, xMax, bars, x }: View): uPlot.Scale {
  if (bars || kind === "name")
    return {
      time: false,
      range: (plot, min, max) => {
        const half = stepOf(x) / 2;
        const [first, last] = [plot.data[0][0] ?? min, plot.data[0].at(-1) ?? max];
        return min > first || max < last ? [min, max] : [first - half, last + half];
      },
    };
  if (xMax === undefined) return { time: kind === "time" };
  return {
    time: false,
    range: (plot, min, max) => {
      const [first, last] = [plot.data[0][0] ?? min, plot.data[0].at(-1) ?? max];
      return min > first || max < last ? [min, max] : [Math.min(min, 0), Math.max(max, xMax)];
    },
  };
}

function yScale(view: View): uPlot.Scale {
  const { yRange, bars, fromZero } = view;
  if (yRange) return { range: () => [...yRange] };
  return bars || fromZero ? FROM_ZERO : isLog(view) ? { distr: 3 } : {};
}

const FROM_ZERO: uPlot.Scale = { range: (_, _min, max) => [0, max > 0 ? max * 1.05 : 1] };

/** One value has no line: it is a point. */
const isLonely = (plot: uPlot, index: number): boolean => {
  let n = 0;
  for (const value of plot.data[index] ?? []) if (value != null && ++n > 1) return false;
  return n === 1;
};

const faded = (rgb: string, share: number) => rgb.replace(/^rgb\((.*)\)$/, `rgba($1, ${share})`);

const FONT = "11px system-ui, sans-serif";
const NAME_PX = 15;

function axesOf({ kind, x: places, xLabel, yLabel, format, names = [] }: View, colour: Colour): uPlot.Axis[] {
  const common = { stroke: colour("--muted"), font: FONT, labelFont: FONT, labelGap: 0, ticks: { show: false } };
  const grid = { stroke: colour("--line"), width: 1 };
  const shown = format ?? ((value: number) => number(value));
  const values = (_: uPlot, all: number[]) => all.map((value) => (value === null ? "" : shown(value)));
  const numbers = (_: uPlot, all: number[]) => all.map((value) => number(value, 6));
  const texts = { time: timeTexts, span: spanTexts, day: dayTexts, number: undefined, name: undefined }[
    kind ?? "number"
  ];
  const incrs = kind === "span" ? SPANS : kind === "day" ? DAYS : places.every(Number.isInteger) ? WHOLE : undefined;
  const named = ({ bbox }: uPlot) => nameTexts(names, bbox.width / devicePixelRatio);
  const x: uPlot.Axis = {
    values: texts ? (_: uPlot, all: number[]) => texts(all) : numbers,
    ...(kind !== "time" && incrs ? { incrs } : {}),
    ...(kind === "name"
      ? { splits: (of) => named(of).map(({ at }) => at), values: (of) => named(of).map(({ text }) => text) }
      : {}),
  };
  const titled = (name: string | undefined) => (name === undefined ? {} : { label: name, labelSize: NAME_PX });
  return [
    { ...common, ...x, ...titled(xLabel), grid: { show: false }, size: 22, space: 60 },
    { ...common, ...titled(yLabel), grid, values, size: widthOf, space: 34 },
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

/** Steps of an axis of days: the ticks are at midnight of UTC. */
const DAYS = [1, 2, 5, 10, 20, 30, 60, 90, 180].map((days) => days * DAY_S);

/** Vertical dashed lines with their words, which neither run out of the picture nor lie on each other. */
function drawMarks({ ctx, bbox, valToPos }: uPlot, marks: readonly Mark[], colour: Colour) {
  let free = Number.NEGATIVE_INFINITY; // the x up to which words stand
  for (const { x, label, token = "--warn" } of marks) {
    const at = valToPos(x, "x", true);
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
    const { width } = ctx.measureText(label);
    const isLeft = at + width + 10 > bbox.left + bbox.width;
    const from = isLeft ? at - width - 5 : at + 5;
    if (label !== "" && from > free) {
      ctx.fillText(label, from, bbox.top + 12 * devicePixelRatio);
      free = from + width + 8;
    }
    ctx.restore();
  }
}

const CAP_PX = 7;

/** From the low to the high value of each point, with a cap at both ends. */
function drawStrokes({ ctx, valToPos, bbox }: uPlot, { x, series, hidden }: View, colour: Colour) {
  const cap = CAP_PX * devicePixelRatio;
  for (const { label, token = "--c1", band, dots } of series) {
    if (!dots || !band || hidden.has(label)) continue;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.strokeStyle = colour(token);
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.beginPath();
    for (const [i, at] of x.entries()) {
      const [low, high] = [band.low[i], band.high[i]];
      if (low == null || high == null) continue;
      const middle = valToPos(at, "x", true);
      ctx.moveTo(middle, valToPos(low, "y", true));
      ctx.lineTo(middle, valToPos(high, "y", true));
      for (const end of [low, high]) {
        ctx.moveTo(middle - cap, valToPos(end, "y", true));
        ctx.lineTo(middle + cap, valToPos(end, "y", true));
      }
    }
    ctx.stroke();
    ctx.restore();
  }
}

/** Horizontal dashed lines with their words at the right end. */
function drawLevels({ ctx, bbox, valToPos }: uPlot, levels: readonly Level[], colour: Colour) {
  for (const { y, label } of levels) {
    const at = valToPos(y, "y", true);
    if (at < bbox.top || at > bbox.top + bbox.height) continue;
    ctx.save();
    ctx.strokeStyle = colour("--line-strong");
    ctx.fillStyle = colour("--muted");
    ctx.setLineDash([4, 4]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, at);
    ctx.lineTo(bbox.left + bbox.width, at);
    ctx.stroke();
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = "right";
    ctx.fillText(label, bbox.left + bbox.width - 4, at - 4 * devicePixelRatio);
    ctx.restore();
  }
}
