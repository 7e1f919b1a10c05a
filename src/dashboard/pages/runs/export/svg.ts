/** A curve as text of an SVG, for a file without code. Every string is escaped. */
import { number } from "../../../data/format.ts";
import type { Alarm, Plot } from "../panels.ts";
import { shortAlarm } from "../panels.ts";
import type { Values } from "../series.ts";

export const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);

export type Size = { width: number; height: number };
const LEFT = 58;
/** Narrower pictures have no room for the words of marks. */
const WIDE = 600;
const [RIGHT, TOP, BOTTOM] = [10, 10, 22];

type Scale = { x: (value: number) => number; y: (value: number) => number; low: number; high: number };

export function svgOf({ title, x, series }: Plot, alarms: readonly Alarm[], size: Size): string {
  const scale = scaleOf(
    x,
    series.flatMap(({ values, band }) => [values, ...(band ? [band.low, band.high] : [])]),
    size,
  );
  const parts = [
    ...gridOf(scale, x, size),
    ...series.map(({ band, token }) => (band ? areaOf(x, band, scale, token) : "")),
    ...series.map(({ values, token }) => `<path class="l" d="${pathOf(x, values, scale)}" stroke="var(${token})"/>`),
    ...alarms.map((alarm) => markOf(alarm, scale, size)),
  ];
  const label = `${title}: ${series.map(({ label, values }) => `${label} ${endsText(values)}`).join(", ")}`;
  return `<svg viewBox="0 0 ${size.width} ${size.height}" role="img" aria-label="${escaped(label)}">${parts.join("")}</svg>`;
}

const finite = (values: Values) => values.filter((value) => value !== null && Number.isFinite(value)) as number[];
const endsText = (values: Values) => `${number(finite(values)[0])} to ${number(finite(values).at(-1))}`;

function scaleOf(x: readonly number[], columns: readonly Values[], { width, height }: Size): Scale {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const column of columns)
    for (const value of finite(column)) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  if (low > high) [low, high] = [0, 1];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const [first, last] = [x[0] ?? 0, x.at(-1) ?? 1];
  const span = last === first ? 1 : last - first;
  return {
    low,
    high,
    x: (value) => LEFT + ((value - first) / span) * (width - LEFT - RIGHT),
    y: (value) => TOP + (1 - (value - low) / (high - low)) * (height - TOP - BOTTOM),
  };
}

function gridOf(scale: Scale, x: readonly number[], { width, height }: Size): string[] {
  const steps = [0, 0.5, 1].map((share) => scale.low + share * (scale.high - scale.low));
  const rows = steps.map((value) => {
    const y = scale.y(value).toFixed(1);
    return `<path class="g" d="M${LEFT},${y}H${width - RIGHT}"/><text x="${LEFT - 6}" y="${y}" dy="4" text-anchor="end">${escaped(number(value, 2))}</text>`;
  });
  const [first, last] = [x[0] ?? 0, x.at(-1) ?? 0];
  const at = (value: number, anchor: string) =>
    `<text x="${scale.x(value).toFixed(1)}" y="${height - 6}" text-anchor="${anchor}">${escaped(number(value))}</text>`;
  return [...rows, at(first, "start"), ...(last > first ? [at(last, "end")] : [])];
}

/** A gap begins a new part of the line. */
export function pathOf(x: readonly number[], values: Values, scale: Pick<Scale, "x" | "y">): string {
  let path = "";
  let isDown = false;
  for (const [i, value] of values.entries()) {
    const isKnown = value !== null && Number.isFinite(value);
    if (isKnown) path += `${isDown ? "L" : "M"}${scale.x(x[i] ?? 0).toFixed(1)},${scale.y(value).toFixed(1)}`;
    isDown = isKnown;
  }
  return path;
}

function areaOf(x: readonly number[], { low, high }: { low: Values; high: Values }, scale: Scale, token: string) {
  const indices = x.map((_, i) => i).filter((i) => typeof low[i] === "number" && typeof high[i] === "number");
  if (indices.length === 0) return "";
  const point = (i: number, values: Values) => `${scale.x(x[i] ?? 0).toFixed(1)},${scale.y(values[i] ?? 0).toFixed(1)}`;
  const around = [...indices.map((i) => point(i, high)), ...indices.toReversed().map((i) => point(i, low))];
  return `<path d="M${around.join("L")}Z" fill="var(${token})" opacity="0.14"/>`;
}

function markOf({ step, type, message }: Alarm, scale: Scale, { width, height }: Size): string {
  const at = scale.x(step);
  if (at < LEFT || at > width - RIGHT) return "";
  const [anchor, shift] = at > width * 0.7 ? ["end", -5] : ["start", 5];
  const text =
    width < WIDE
      ? ""
      : `<text class="w" x="${(at + shift).toFixed(1)}" y="${TOP + 10}" text-anchor="${anchor}">${escaped(shortAlarm(type))}</text>`;
  return `<g><title>${escaped(message)}</title><path class="m" d="M${at.toFixed(1)},${TOP}V${height - BOTTOM}"/>${text}</g>`;
}
