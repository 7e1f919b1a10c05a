/**
 * A strict reader of the Prometheus text format 0.0.4, after its description: whatever a lenient one would let pass
 * throws here, with the line. Families stand together, HELP and TYPE come first and once, no series comes twice, only
 * the three escapes exist, histograms add up.
 */
export type Series = { name: string; labels: Record<string, string>; value: number };
export type Family = { name: string; help: string; type: string; series: Series[] };

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const NUMBER = /^([+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]Inf|NaN)$/;
const TYPES = ["counter", "gauge", "histogram", "summary", "untyped"];

export function parsePrometheus(text: string): Map<string, Family> {
  if (text !== "" && !text.endsWith("\n")) throw new Error("the last line must end with a line feed");
  const families = new Map<string, Family>();
  const seen = new Set<string>();
  let open: Family | undefined;
  for (const line of text.split("\n").slice(0, -1)) {
    const fail = (why: string): never => {
      throw new Error(`${why}: ${line}`);
    };
    const comment = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line);
    if (comment) {
      const [, kind, name = "", rest = ""] = comment;
      if (!NAME.test(name)) fail("a bad name");
      if (kind === "HELP") {
        if (families.has(name)) fail("a family that was there before");
        open = { name, help: unescaped(rest, false, fail), type: "", series: [] };
        families.set(name, open);
      } else {
        if (open?.name !== name || open.type !== "" || open.series.length > 0) fail("TYPE out of place");
        if (!TYPES.includes(rest)) fail("an unknown type");
        (open as Family).type = rest;
      }
      continue;
    }
    if (line === "" || line.startsWith("#")) fail("neither a comment that we write nor a sample");
    const series = sampleOf(line, fail);
    if (!open?.type || !belongs(open, series)) fail("a sample outside its family");
    const key = JSON.stringify([series.name, Object.entries(series.labels).sort()]);
    if (seen.has(key)) fail("a series that was there before");
    seen.add(key);
    (open as Family).series.push(series);
  }
  for (const family of families.values()) check(family);
  return families;
}

const belongs = ({ name, type }: Family, series: Series) =>
  type === "histogram"
    ? [`${name}_bucket`, `${name}_sum`, `${name}_count`].includes(series.name) &&
      "le" in series.labels === series.name.endsWith("_bucket")
    : series.name === name;

function sampleOf(line: string, fail: (why: string) => never): Series {
  const name = /^[a-zA-Z_:][a-zA-Z0-9_:]*/.exec(line)?.[0] ?? fail("a bad name");
  const labels: Record<string, string> = {};
  let at = name.length;
  if (line[at] === "{") {
    at++;
    for (let first = true; line[at] !== "}"; first = false) {
      if (!first && line[at++] !== ",") fail("a comma is missing");
      const label = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/.exec(line.slice(at)) ?? fail("a bad label");
      const [whole, key = "", value = ""] = label;
      if (key in labels || key.startsWith("__")) fail("a label twice, or a reserved one");
      labels[key] = unescaped(value, true, fail);
      at += whole.length;
    }
    at++;
  }
  const value = line.slice(at);
  if (!value.startsWith(" ") || !NUMBER.test(value.slice(1))) fail("a bad value");
  return { name, labels, value: Number(value.slice(1).replace("Inf", "Infinity")) };
}

function unescaped(text: string, quotes: boolean, fail: (why: string) => never): string {
  return text.replaceAll(/\\(.?)/g, (_, c: string) => {
    if (c === "n") return "\n";
    return c === "\\" || (quotes && c === '"') ? c : fail("an unknown escape");
  });
}

function check({ name, type, help, series }: Family) {
  if (!type || !help || series.length === 0) throw new Error(`${name}: without a type, a help or a sample`);
  if (type === "counter" && series.some(({ value }) => !(value >= 0))) throw new Error(`${name}: below zero`);
  if (type !== "histogram") return;
  const groups = Map.groupBy(series, ({ labels: { le: _, ...rest } }) => JSON.stringify(Object.entries(rest).sort()));
  for (const [labels, group] of groups) {
    const buckets = group.filter((each) => each.name === `${name}_bucket`);
    const bounds = buckets.map(({ labels }) => Number(labels["le"]?.replace("Inf", "Infinity")));
    const rising = (values: number[], strictly: boolean) =>
      values.every(
        (value, i) => i === 0 || value > (values[i - 1] as number) || (!strictly && value === values[i - 1]),
      );
    const count = group.find((each) => each.name === `${name}_count`)?.value;
    const sums = group.filter((each) => each.name === `${name}_sum`).length;
    if (!rising(bounds, true) || bounds.at(-1) !== Number.POSITIVE_INFINITY || sums !== 1)
      throw new Error(`${name}{${labels}}: buckets without order, +Inf or sum`);
    if (
      !rising(
        buckets.map(({ value }) => value),
        false,
      ) ||
      buckets.at(-1)?.value !== count
    )
      throw new Error(`${name}{${labels}}: buckets that do not add up`);
  }
}

/** The value of one series, by some of its labels; undefined: there is none. Throws when several fit. */
export function numberIn(
  families: Map<string, Family>,
  name: string,
  labels: Record<string, string> = {},
): number | undefined {
  const family = families.get(name) ?? families.get(name.replace(/_(bucket|sum|count)$/, ""));
  const fits = (family?.series ?? []).filter(
    (series) => series.name === name && Object.entries(labels).every(([key, value]) => series.labels[key] === value),
  );
  if (fits.length > 1) throw new Error(`${fits.length} series of ${name} fit ${JSON.stringify(labels)}`);
  return fits[0]?.value;
}
