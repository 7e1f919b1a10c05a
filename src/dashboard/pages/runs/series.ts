/** Curves from the metrics of steps. Long runs come thinned: a point then lacks some keys, and gaps are bridged. */
import type { Values } from "../../kit/chart/series.ts";
import type { Point, TrainingJob } from "./types.ts";

export type { Values } from "../../kit/chart/series.ts";
export type Axis = "step" | "time" | "tokens" | "samples";

/** The values of one key, and where they are among the points. */
export type Column = { at: number[]; values: number[] };

const steps = new WeakMap<readonly Point[], number[]>();

/** The steps of the points, made once. */
export function stepsOf(points: readonly Point[]): readonly number[] {
  const list = steps.get(points) ?? points.map(({ step }) => step);
  steps.set(points, list);
  return list;
}

const tables = new WeakMap<readonly Point[], ReadonlyMap<string, Column>>();

/** One pass over all points, kept with them: a long run has hundreds of thousands of values. */
export function columnsOf(points: readonly Point[]): ReadonlyMap<string, Column> {
  const kept = tables.get(points);
  if (kept) return kept;
  const columns = new Map<string, Column>();
  for (const [i, { values }] of points.entries())
    for (const key in values) {
      const column = columns.get(key) ?? { at: [], values: [] };
      if (column.at.length === 0) columns.set(key, column);
      column.at.push(i);
      column.values.push(values[key] ?? 0);
    }
  tables.set(points, columns);
  return columns;
}

/** The curve of a key at the positions of the points. */
export function curveOf(points: readonly Point[], key: string, positions: readonly number[]): Curve | undefined {
  const column = columnsOf(points).get(key);
  return column && { x: column.at.map((i) => positions[i] ?? 0), values: column.values };
}

/** Gaps between two values become a straight line. Gaps at the ends stay. */
export function bridged(values: Values, x: readonly number[]): (number | null)[] {
  const result = [...values];
  let last = -1;
  for (const [i, value] of values.entries()) {
    if (value === null) continue;
    const before = values[last] ?? null;
    if (before !== null) fill(result, x, { from: last, to: i, before, value });
    last = i;
  }
  return result;
}

type Gap = { from: number; to: number; before: number; value: number };

function fill(result: (number | null)[], x: readonly number[], { from, to, before, value }: Gap) {
  const [start, end] = [x[from] ?? 0, x[to] ?? 0];
  for (let i = from + 1; i < to; i++) {
    const share = end === start ? 1 : ((x[i] ?? 0) - start) / (end - start);
    result[i] = before + share * (value - before);
  }
}

const RANGES = [
  [0, 1],
  [-1, 1],
] as const;
/** The deviation of a few values is larger by up to √2 than that of all. */
const FEW = 2;

/**
 * The range that values with these means and deviations most likely have. In a range from `low` to `high` no deviation is
 * larger than √((high - mean) (mean - low)); values of another range break that soon. Undefined: neither range fits.
 */
export function likelyRange(mean: Values, spread: Values): readonly [low: number, high: number] | undefined {
  return RANGES.find(([low, high]) =>
    mean.every((value, i) => {
      const width = spread[i] ?? null;
      if (value === null) return true;
      if (value < low || value > high) return false;
      return width === null || width * width <= (high - value) * (value - low) * FEW + 1e-6;
    }),
  );
}

/** The band of one standard deviation around a mean. It stays within what a value can be, as far as that is known. */
export function bandOf(mean: Values, spread: Values): { low: (number | null)[]; high: (number | null)[] } {
  const [least, most] = likelyRange(mean, spread) ?? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  const at = (sign: number) =>
    mean.map((value, i) => {
      const width = spread[i] ?? null;
      return value === null || width === null ? null : Math.min(most, Math.max(least, value + sign * width));
    });
  return { low: at(-1), high: at(1) };
}

/** The start of the axes of a run, and how many rows or answers a step has. */
export const startOf = ({ started_at: startedAt, hyperparameters, gpu }: TrainingJob): Start => {
  const of = (name: string) => (typeof hyperparameters[name] === "number" ? hyperparameters[name] : 1);
  const samplesPerStep = of("per_device_train_batch_size") * of("gradient_accumulation_steps") * (gpu?.count ?? 1);
  return { startedAt, samplesPerStep };
};

type Start = { startedAt: string | null; samplesPerStep: number };

/** Positions of the points on the axis: step, seconds since the start, tokens or samples so far. */
export function positionsOf(
  points: readonly Point[],
  axis: Axis,
  { startedAt, samplesPerStep }: Start,
): readonly number[] {
  if (axis === "step") return stepsOf(points);
  if (axis === "samples") return points.map(({ step }) => step * samplesPerStep);
  if (axis === "time") {
    const start = Date.parse(startedAt ?? points[0]?.time ?? "");
    return points.map(({ time }) => Math.max(0, (Date.parse(time) - start) / 1000));
  }
  const tokens: (number | null)[] = points.map(({ values }) => values["num_tokens"] ?? null);
  const totals = bridged(tokens, stepsOf(points));
  let last = 0;
  return totals.map((value) => (last = Math.max(last, value ?? last)));
}

export type Curve = { x: readonly number[]; values: Values };

/** Several curves on one axis: each has a value at its own positions only. */
export function joined(curves: readonly Curve[]): { x: readonly number[]; columns: Values[] } {
  const [only] = curves;
  if (only && curves.length === 1) return { x: only.x, columns: [only.values] };
  const x = [...new Set(curves.flatMap((curve) => curve.x))].sort((a, b) => a - b);
  const index = new Map(x.map((position, i) => [position, i]));
  const columns = curves.map((curve) => {
    const column = new Array<number | null>(x.length).fill(null);
    for (const [i, position] of curve.x.entries()) column[index.get(position) ?? 0] = curve.values[i] ?? null;
    return bridged(column, x);
  });
  return { x, columns };
}

/** The first and the last value of a key. */
export function endsOf(points: readonly Point[], key: string): { first: number; last: number } | undefined {
  const values = columnsOf(points).get(key)?.values;
  const [first, last] = [values?.[0], values?.at(-1)];
  return first === undefined || last === undefined ? undefined : { first, last };
}

/** The mean of the last values. A step that learns nothing has a speed of 0, so one value says little. */
export function recentMean(points: readonly Point[], key: string, steps = 10): number | undefined {
  const values = columnsOf(points).get(key)?.values.slice(-steps) ?? [];
  return values.length > 0 ? values.reduce((sum, value) => sum + value, 0) / values.length : undefined;
}
