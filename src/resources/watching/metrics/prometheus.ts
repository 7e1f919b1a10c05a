/** The Prometheus text format 0.0.4: families with their HELP and TYPE, one sample a line. */

/** `counts` has one more entry than `bounds`: values above all bounds. */
export type Histogram = { bounds: readonly number[]; counts: readonly number[]; sum: number };
/** `labels`: as `labelText` made them. */
export type Sample = { labels: string; value: number | Histogram };
export type Family = { name: string; help: string; type: "counter" | "gauge" | "histogram"; samples: Sample[] };

export const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

const SPECIAL = /[\\"\n]/;
const ESCAPES: Record<string, string> = { "\\": "\\\\", '"': '\\"', "\n": "\\n" };
const escaped = (text: string) => (SPECIAL.test(text) ? text.replaceAll(/[\\"\n]/g, (c) => ESCAPES[c] ?? c) : text);

/** `{ workspace: "ws_1", job: "a" }` → `workspace="ws_1",job="a"`. */
export function labelText(labels: Readonly<Record<string, string>>): string {
  let text = "";
  for (const name in labels) text += `${text === "" ? "" : ","}${name}="${escaped(labels[name] ?? "")}"`;
  return text;
}

export const familyText = (families: readonly Family[]): string => families.map(textOf).join("");

/** Families without samples are omitted. */
function textOf({ name, help, type, samples }: Family): string {
  if (samples.length === 0) return "";
  let text = `# HELP ${name} ${help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}\n# TYPE ${name} ${type}\n`;
  for (const { labels, value } of samples)
    text += typeof value === "number" ? lineOf(name, labels, value) : histogramText(name, labels, value);
  return text;
}

function histogramText(name: string, labels: string, { bounds, counts, sum }: Histogram): string {
  const lead = labels === "" ? "" : `${labels},`;
  let text = "";
  let total = 0;
  for (let i = 0; i <= bounds.length; i++) {
    total += counts[i] ?? 0;
    text += `${name}_bucket{${lead}le="${numberText(bounds[i] ?? Number.POSITIVE_INFINITY)}"} ${total}\n`;
  }
  return text + lineOf(`${name}_sum`, labels, sum) + lineOf(`${name}_count`, labels, total);
}

const lineOf = (name: string, labels: string, value: number) =>
  labels === "" ? `${name} ${numberText(value)}\n` : `${name}{${labels}} ${numberText(value)}\n`;

function numberText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  return value === Number.NEGATIVE_INFINITY ? "-Inf" : String(value);
}
