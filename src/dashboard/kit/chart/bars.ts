/** Bars of several series, one on the other. Pure. */
import type { Series, Values } from "./series.ts";

/**
 * The upper end of each bar. The first series is the top of the pile and is drawn first: each one after it covers its
 * lower part. A hidden series takes no room.
 */
export function stacked(series: readonly Pick<Series, "label" | "values">[], hidden: ReadonlySet<string>): Values[] {
  const ends: Values[] = [];
  let below: Values = [];
  for (const { label, values } of series.toReversed()) {
    const under = below;
    below = values.map((value, i) => (under[i] ?? 0) + (hidden.has(label) ? 0 : (value ?? 0)));
    ends.unshift(below);
  }
  return ends;
}

/** The distance between two bars. */
export const stepOf = (x: readonly number[]): number => {
  const [first = 0, second = first + 1] = x;
  return second - first;
};
