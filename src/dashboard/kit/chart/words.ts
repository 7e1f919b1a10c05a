/** Figures of a chart as texts: of its axes, of the note at the crosshair, of saved files. Pure. */
import { duration, NONE, number } from "../../data/format.ts";
import type { Content, Values } from "./series.ts";

const DAY_S = 86_400;

/** The place on the x axis: "step 12", "1 min 5 s", "16/11/2026, 15:04:05". */
export function placeText({ kind, xLabel = "", names = [] }: Content, at: number): string {
  if (kind === "name") return names[at] ?? "";
  if (kind === "day") return dayText(at);
  if (kind === "time") return new Date(at * 1000).toLocaleString("en-GB");
  return kind === "span" ? duration(at) : `${xLabel} ${number(at, 9)}`.trim();
}

const dayText = (seconds: number, format: Intl.DateTimeFormatOptions = { dateStyle: "medium" }) =>
  new Date(seconds * 1000).toLocaleString("en-GB", { ...format, timeZone: "UTC" });

/** Labels of an axis of days. */
export const dayTexts = (all: readonly number[]): string[] =>
  all.map((seconds) => dayText(seconds, { day: "numeric", month: "short" }));

/** Lines of the note: the place, then each line that is shown with its figure. */
export function noteLines(content: Content, index: number, hidden: ReadonlySet<string>): string[] {
  const show = content.format ?? ((value: number) => number(value, 4));
  const figure = (values: Values) => {
    const value = values[index] ?? null;
    return value === null ? NONE : show(value);
  };
  const isAbsent = (values: Values) => content.kind === "name" && (values[index] ?? null) === null;
  const lines = content.series.filter(({ label, values }) => !hidden.has(label) && !isAbsent(values));
  return [
    placeText(content, content.x[index] ?? 0),
    ...lines.map(({ label, values, band }) => {
      const around = band && band.low[index] != null ? ` (${figure(band.low)} to ${figure(band.high)})` : "";
      return `${label} ${figure(values)}${around}`;
    }),
  ];
}

/** Labels of a time axis in one line: a day for a long axis, seconds for a short one. */
export function timeTexts(all: readonly number[]): string[] {
  const span = (all.at(-1) ?? 0) - (all[0] ?? 0);
  const clock: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit" };
  if (span < 600) clock.second = "2-digit";
  const format: Intl.DateTimeFormatOptions = span > 2 * DAY_S ? { day: "numeric", month: "short" } : clock;
  return all.map((seconds) => new Date(seconds * 1000).toLocaleString("en-GB", format));
}

export const spanTexts = (all: readonly number[]): string[] =>
  all.map((value) => (value === 0 ? "0" : duration(value)));

const PX_OF_LETTER = 6.6;
const LEAST_NAME_PX = 56;

/** Names below an axis of this width: as many as have room, cut to it. `at`: the index of each. */
export function nameTexts(names: readonly string[], width: number): { at: number; text: string }[] {
  const every = Math.max(1, Math.ceil((names.length * LEAST_NAME_PX) / Math.max(1, width)));
  const most = Math.max(4, Math.floor((width * every) / Math.max(1, names.length) / PX_OF_LETTER) - 1);
  const cut = (name: string) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);
  return names.flatMap((name, at) => (at % every === 0 ? [{ at, text: cut(name) }] : []));
}

const UNITS = [1, 2, 5, 10];

/** About `most` round numbers from `low` to `high`, both inside. */
export function ticksOf(low: number, high: number, most = 5): number[] {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return Number.isFinite(low) ? [low] : [];
  const rough = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * (UNITS.find((unit) => unit * power >= rough) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}
