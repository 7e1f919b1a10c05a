/** Small curves as SVG paths. */

/** At most this many points: more are not visible in a sparkline. */
const MOST = 120;

/** Every k-th value, with the last one. */
export function thinned(values: readonly number[], most = MOST): number[] {
  if (values.length <= most) return [...values];
  const step = (values.length - 1) / (most - 1);
  return Array.from({ length: most }, (_, i) => values[Math.round(i * step)] ?? 0);
}

/** The path of a line through `values`, with two pixels of room above and below. A flat line lies in the middle. */
export function linePath(values: readonly number[], width: number, height: number): string {
  const shown = thinned(values.filter(Number.isFinite));
  if (shown.length === 0) return "";
  const [low, high] = [Math.min(...shown), Math.max(...shown)];
  const y = (value: number) => (high === low ? height / 2 : 2 + (1 - (value - low) / (high - low)) * (height - 4));
  if (shown.length === 1) return `M0,${y(low).toFixed(1)}H${width}`;
  const x = (i: number) => (i / (shown.length - 1)) * width;
  return shown.map((value, i) => `${i === 0 ? "M" : "L"}${x(i).toFixed(1)},${y(value).toFixed(1)}`).join("");
}
