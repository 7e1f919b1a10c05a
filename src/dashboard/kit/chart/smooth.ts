/** Smoothing of curves. Pure. */
import type { Values } from "./series.ts";

/**
 * An exponential moving average, without the bias towards 0 of its first values. `weight` 0 changes nothing; near 1 the
 * curve is nearly flat. Gaps stay gaps.
 */
export function smoothed(values: Values, weight: number): Values {
  if (weight <= 0) return values;
  let sum = 0;
  let weights = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    weights = weight * weights + (1 - weight);
    return sum / weights;
  });
}

/** A logarithmic axis has no place for 0 and below. */
export const positive = (values: Values): Values =>
  values.some((value) => value !== null && value <= 0)
    ? values.map((value) => (value !== null && value > 0 ? value : null))
    : values;

/** True if a logarithmic axis can show something. */
export const hasPositive = (columns: readonly Values[]): boolean =>
  columns.some((values) => values.some((value) => value !== null && value > 0));
