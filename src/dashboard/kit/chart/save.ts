/** A chart as a file: a picture (SVG) or figures (CSV). The texts are made here, without a browser. */
import { number } from "../../data/format.ts";
import { stacked, stepOf } from "./bars.ts";
import type { Content, Level, Mark, Values } from "./series.ts";
import { dayTexts, nameTexts, spanTexts, ticksOf, timeTexts } from "./words.ts";

export const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);

export type Size = { width: number; height: number };
/** The colour of a token: a value for a file of its own, `var(--c1)` for a page that has the tokens. */
export type Paint = (token: string) => string;

const LEFT = 58;
const [RIGHT, TOP, BOTTOM] = [12, 12, 24];
const NAME_PX = 16; // room of the name of an axis
/** Narrower pictures have no room for the words of marks. */
const WIDE = 600;

type Scale = { x: (value: number) => number; y: (value: number) => number; low: number; high: number };
type Frame = Size & { top: number; bottom: number };

/** `legend`: a line of names above the curves, for a picture that stands alone. */
export function svgOf(content: Content, size: Size, paint: Paint, legend = false): string {
  const { x, series, marks = [], label } = content;
  const frame = { ...size, top: TOP + (legend ? 20 : 0), bottom: BOTTOM + (content.xLabel ? NAME_PX : 0) };
  const ends = content.bars ? stacked(series, NOTHING) : [];
  const columns = content.bars
    ? [...ends, [0]]
    : series.flatMap(({ values, band }) => [values, ...(band ? [band.low, band.high] : [])]);
  if (content.fromZero) columns.push([0]);
  if (content.yRange) columns.splice(0, columns.length, [...content.yRange]);
  const half = content.bars || content.kind === "name" ? stepOf(x) / 2 : 0;
  const scale = scaleOf([(x[0] ?? 0) - half, (x.at(-1) ?? 1) + half], columns, frame);
  const parts = [
    ...gridOf(scale, content, frame),
    ...(content.bars ? series.map(({ token = "--c1" }, i) => barsOf(x, ends[i] ?? [], scale, paint(token))) : []),
    ...(content.bars ? [] : linesOf(content, scale, paint)),
    ...marks.map((mark) => markOf(mark, scale, frame)),
    ...(content.levels ?? []).map((level) => levelOf(level, scale, frame)),
    ...(legend ? legendOf(content, paint) : []),
  ];
  const texts = `${label}: ${series.map((each) => `${each.label} ${endsText(each.values)}`).join(", ")}`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size.width} ${size.height}" role="img" aria-label="${escaped(texts)}">${parts.join("")}</svg>`;
}

const NOTHING: ReadonlySet<string> = new Set();

const linesOf = ({ x, series }: Content, scale: Scale, paint: Paint): string[] => [
  ...series.map(({ band, token = "--c1", dots }) =>
    band ? (dots ? strokesOf : areaOf)(x, band, scale, paint(token)) : "",
  ),
  ...series.map(({ values, token = "--c1", dashed, dots }) =>
    dots
      ? dotsOf(x, values, scale, paint(token))
      : `<path class="l" d="${pathOf(x, values, scale)}" stroke="${paint(token)}"${dashed ? ' stroke-dasharray="5 4"' : ""}/>`,
  ),
];

const BAR_SHARE = 0.72;

/** The bars of one series of a pile, from 0 up. */
function barsOf(x: readonly number[], ends: Values, scale: Scale, colour: string): string {
  const width = (scale.x(stepOf(x)) - scale.x(0)) * BAR_SHARE;
  const bars = x.map((at, i) => {
    const [left, top] = [scale.x(at) - width / 2, scale.y(ends[i] ?? 0)];
    return `M${left.toFixed(1)},${scale.y(0).toFixed(1)}h${width.toFixed(1)}V${top.toFixed(1)}h-${width.toFixed(1)}Z`;
  });
  return `<path d="${bars.join("")}" fill="${colour}"/>`;
}

/** A picture that stands alone: with its own colours, a background and a legend. */
export function pictureOf(content: Content, size: Size, paint: Paint): string {
  const style = `text{font:11px system-ui,sans-serif;fill:${paint("--muted")}}.g{stroke:${paint("--line")}}.l{fill:none;stroke-width:1.8;stroke-linejoin:round}.m{stroke:${paint("--warn")};stroke-dasharray:4 4}.w{fill:${paint("--warn")}}`;
  const svg = svgOf(content, size, paint, true);
  const open = svg.indexOf(">") + 1;
  const back = `<rect width="${size.width}" height="${size.height}" fill="${paint("--surface")}"/>`;
  return `${svg.slice(0, open)}<title>${escaped(content.label)}</title><style>${style}</style>${back}${svg.slice(open)}`;
}

const finite = (values: Values) => values.filter((value) => value !== null && Number.isFinite(value)) as number[];
const endsText = (values: Values) => `${number(finite(values)[0])} to ${number(finite(values).at(-1))}`;

function scaleOf(x: readonly number[], columns: readonly Values[], { width, height, top, bottom }: Frame): Scale {
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
    y: (value) => top + (1 - (value - low) / (high - low)) * (height - top - bottom),
  };
}

function gridOf(scale: Scale, content: Content, { width, height, top, bottom }: Frame): string[] {
  const { x, kind = "number", xLabel, yLabel, format = (value: number) => number(value, 3) } = content;
  const rows = ticksOf(scale.low, scale.high, 4).map((value) => {
    const y = scale.y(value).toFixed(1);
    return `<path class="g" d="M${LEFT},${y}H${width - RIGHT}"/><text x="${LEFT - 6}" y="${y}" dy="4" text-anchor="end">${escaped(format(value))}</text>`;
  });
  const [first, last] = [x[0] ?? 0, x.at(-1) ?? 0];
  const stops = last > first ? (kind === "number" ? ticksOf(first, last, 6) : [first, last]) : [first];
  const texts =
    kind === "time"
      ? timeTexts(stops)
      : kind === "day"
        ? dayTexts(stops)
        : kind === "span"
          ? spanTexts(stops)
          : stops.map((at) => number(at, 6));
  const line = height - bottom + 16;
  const labels =
    kind === "name"
      ? nameTexts(content.names ?? [], width - LEFT - RIGHT)
      : stops.map((at, i) => ({ at, text: texts[i] ?? "" }));
  const below = labels.map(
    ({ at, text }) => `<text x="${scale.x(at).toFixed(1)}" y="${line}" text-anchor="middle">${escaped(text)}</text>`,
  );
  const names = [
    ...(xLabel
      ? [`<text x="${(LEFT + width - RIGHT) / 2}" y="${height - 4}" text-anchor="middle">${escaped(xLabel)}</text>`]
      : []),
    ...(yLabel
      ? [
          `<text transform="translate(11 ${(top + height - bottom) / 2}) rotate(-90)" text-anchor="middle">${escaped(yLabel)}</text>`,
        ]
      : []),
  ];
  return [...rows, ...below, ...names];
}

const PX_OF_LETTER = 6.4;

function legendOf({ series }: Content, paint: Paint): string[] {
  let at = LEFT;
  return series.map(({ label, token = "--c1" }) => {
    const part = `<path d="M${at},11h12" stroke="${paint(token)}" stroke-width="3"/><text x="${at + 17}" y="15">${escaped(label)}</text>`;
    at += 34 + label.length * PX_OF_LETTER;
    return part;
  });
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

const dotsOf = (x: readonly number[], values: Values, scale: Scale, colour: string): string =>
  values
    .map((value, i) =>
      value === null
        ? ""
        : `<circle cx="${scale.x(x[i] ?? 0).toFixed(1)}" cy="${scale.y(value).toFixed(1)}" r="3.5" fill="${colour}"/>`,
    )
    .join("");

function areaOf(x: readonly number[], { low, high }: { low: Values; high: Values }, scale: Scale, colour: string) {
  const indices = x.map((_, i) => i).filter((i) => typeof low[i] === "number" && typeof high[i] === "number");
  if (indices.length === 0) return "";
  const point = (i: number, values: Values) => `${scale.x(x[i] ?? 0).toFixed(1)},${scale.y(values[i] ?? 0).toFixed(1)}`;
  const around = [...indices.map((i) => point(i, high)), ...indices.toReversed().map((i) => point(i, low))];
  return `<path d="M${around.join("L")}Z" fill="${colour}" opacity="0.14"/>`;
}

const CAP_PX = 7;

function strokesOf(x: readonly number[], { low, high }: { low: Values; high: Values }, scale: Scale, colour: string) {
  const strokes = x.flatMap((at, i) => {
    const [from, to] = [low[i], high[i]];
    if (from == null || to == null) return [];
    const [left, bottom, top] = [scale.x(at) - CAP_PX, scale.y(from), scale.y(to)];
    const cap = (y: number) => `M${left.toFixed(1)},${y.toFixed(1)}h${2 * CAP_PX}`;
    return [`M${scale.x(at).toFixed(1)},${bottom.toFixed(1)}V${top.toFixed(1)}${cap(bottom)}${cap(top)}`];
  });
  return `<path d="${strokes.join("")}" fill="none" stroke="${colour}" stroke-width="2"/>`;
}

function levelOf({ y, label }: Level, scale: Scale, { width }: Frame): string {
  const at = scale.y(y).toFixed(1);
  const text = `<text x="${width - RIGHT - 4}" y="${at}" dy="-4" text-anchor="end">${escaped(label)}</text>`;
  return `<path class="g" d="M${LEFT},${at}H${width - RIGHT}" stroke-dasharray="4 4"/>${text}`;
}

function markOf({ x, label }: Mark, scale: Scale, { width, height, top, bottom }: Frame): string {
  const at = scale.x(x);
  if (at < LEFT || at > width - RIGHT) return "";
  const [anchor, shift] = at > width * 0.7 ? ["end", -5] : ["start", 5];
  const text =
    width < WIDE || label === ""
      ? ""
      : `<text class="w" x="${(at + shift).toFixed(1)}" y="${top + 10}" text-anchor="${anchor}">${escaped(label)}</text>`;
  return `<g><path class="m" d="M${at.toFixed(1)},${top}V${height - bottom}"/>${text}</g>`;
}

/** One column for x and one for each line, with all digits. */
export function csvOf({ x, xLabel = "x", kind, series, names = [] }: Content): string {
  const columns = series.flatMap(({ label, values, band }) => [
    { name: label, values },
    ...(band
      ? [
          { name: `${label} low`, values: band.low },
          { name: `${label} high`, values: band.high },
        ]
      : []),
  ]);
  const place = (at: number) => {
    if (kind === "name") return csvCell(names[at] ?? "");
    return kind === "day" ? new Date(at * 1000).toISOString().slice(0, 10) : at;
  };
  const rows = x.map((at, i) => [place(at), ...columns.map(({ values }) => values[i] ?? "")].join());
  return [[xLabel, ...columns.map(({ name }) => name)].map(csvCell).join(), ...rows]
    .map((line) => `${line}\r\n`)
    .join("");
}

/** A text in a CSV file. One that a spreadsheet takes for a formula is quoted. */
export function csvCell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** The name of a file: letters, digits and hyphens. */
export const fileName = (label: string): string =>
  label
    .replaceAll(/[^\p{L}\p{N}._-]+/gu, "-")
    .replaceAll(/^-+|-+$/g, "")
    .slice(0, 80) || "chart";

/** Saves a text like a download. */
export function saveText(name: string, type: string, text: string) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
