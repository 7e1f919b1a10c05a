/** Curves from the metrics of steps. Long runs come thinned: a point then lacks some keys, and gaps are bridged. */
import type { Point } from "./types.ts";

export type Values = readonly (number | null)[];
export type Axis = "step" | "time" | "tokens";

/** Points that have at least one of the keys. */
export const pointsWith = (points: readonly Point[], keys: readonly string[]): Point[] =>
  points.filter(({ values }) => keys.some((key) => values[key] !== undefined));

export const valuesOf = (points: readonly Point[], key: string): (number | null)[] =>
  points.map(({ values }) => values[key] ?? null);

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

/** The band of one standard deviation around a mean. */
export function bandOf(mean: Values, spread: Values): { low: (number | null)[]; high: (number | null)[] } {
  const at = (sign: number) =>
    mean.map((value, i) => {
      const width = spread[i] ?? null;
      return value === null || width === null ? null : value + sign * width;
    });
  return { low: at(-1), high: at(1) };
}

/** Where the points lie on the axis: step, seconds since the start, or tokens so far. */
export function positionsOf(points: readonly Point[], axis: Axis, startedAt: string | null): number[] {
  if (axis === "step") return points.map(({ step }) => step);
  if (axis === "time") {
    const start = Date.parse(startedAt ?? points[0]?.time ?? "");
    return points.map(({ time }) => Math.max(0, (Date.parse(time) - start) / 1000));
  }
  const steps = points.map(({ step }) => step);
  const tokens = bridged(valuesOf(points, "num_tokens"), steps);
  let last = 0;
  return tokens.map((value) => (last = Math.max(last, value ?? last)));
}

export type Curve = { x: readonly number[]; values: Values };

/** Several curves on one axis: each has a value at its own positions only. */
export function joined(curves: readonly Curve[]): { x: number[]; columns: (number | null)[][] } {
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
  const values = points.flatMap((point) => point.values[key] ?? []);
  const [first, last] = [values[0], values.at(-1)];
  return first === undefined || last === undefined ? undefined : { first, last };
}
