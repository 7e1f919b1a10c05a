/** Metrics as OTLP/HTTP in JSON, the format of OpenTelemetry collectors. */
import type { Family, Sample } from "./prometheus.ts";

type Attribute = { key: string; value: { stringValue: string } };
type Point = { attributes: Attribute[]; timeUnixNano: string; startTimeUnixNano?: string } & Record<string, unknown>;

export type OtlpTimes = {
  nowMs: number;
  /** Counters continue after a restart, so they count from the first start of the installation. */
  startMs: number;
};

const CUMULATIVE = 2;

export function otlpBody(families: readonly Family[], version: string, times: OtlpTimes): string {
  const metrics = families.map((family) => metricOf(family, times)).filter((metric) => metric !== undefined);
  const resource = { attributes: [attribute("service.name", "verk"), attribute("service.version", version)] };
  return JSON.stringify({ resourceMetrics: [{ resource, scopeMetrics: [{ scope: { name: "verk" }, metrics }] }] });
}

function metricOf({ name, help, type, samples }: Family, times: OtlpTimes) {
  const points = samples.flatMap((sample) => pointOf(sample, type, times) ?? []);
  if (points.length === 0) return undefined;
  const about = { name, description: help };
  if (type === "gauge") return { ...about, gauge: { dataPoints: points } };
  const summed = { dataPoints: points, aggregationTemporality: CUMULATIVE };
  return type === "counter" ? { ...about, sum: { ...summed, isMonotonic: true } } : { ...about, histogram: summed };
}

const nanos = (ms: number) => `${Math.round(ms)}000000`;

function pointOf({ labels, value }: Sample, type: Family["type"], { nowMs, startMs }: OtlpTimes): Point | undefined {
  const start = type === "gauge" ? {} : { startTimeUnixNano: nanos(startMs) };
  const point = { attributes: attributesOf(labels), timeUnixNano: nanos(nowMs), ...start };
  if (typeof value === "number") return Number.isFinite(value) ? { ...point, asDouble: value } : undefined;
  const count = value.counts.reduce((sum, each) => sum + each, 0);
  const bucketCounts = value.bounds.map((_, i) => String(value.counts[i] ?? 0));
  bucketCounts.push(String(value.counts[value.bounds.length] ?? 0));
  return { ...point, count: String(count), sum: value.sum, explicitBounds: value.bounds, bucketCounts };
}

const attribute = (key: string, text: string): Attribute => ({ key, value: { stringValue: text } });

/** Reads back what `labelText` wrote. */
const attributesOf = (labels: string): Attribute[] =>
  [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name = "", text = ""]) =>
    attribute(
      name,
      text.replaceAll(/\\(.)/g, (_, c: string) => (c === "n" ? "\n" : c)),
    ),
  );
