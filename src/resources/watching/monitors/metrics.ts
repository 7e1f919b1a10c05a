/** The metrics that a monitor can watch: their units, what they are measured on, and which side is bad. */
import type { Comparison } from "./policy.ts";

export const METRICS = [
  "latency_p50",
  "latency_p95",
  "error_rate",
  "tokens",
  "score_mean",
  "score_psi",
  "score_ks",
  "reward",
  "gpu_memory",
  "gpu_temperature",
  "disk_free",
  "cost",
  "balance",
  "webhook_failures",
] as const;
export type Metric = (typeof METRICS)[number];

export type Target = "deployment_id" | "job_id" | "endpoint_id" | "device" | "score";

export type MetricFacts = {
  unit: string;
  /** The side of the threshold that is bad, unless the monitor says otherwise. */
  comparison: Comparison;
  /** Fields that say what is measured. A required one ends with `!`. */
  targets: readonly (Target | `${Target}!`)[];
  /** The figure belongs to the whole machine and needs a key with the scope `admin`, as in GET /v1/metrics. */
  operator?: true;
};

const OF_DEPLOYMENT = ["deployment_id"] as const;
const OF_SCORE = ["score!", "deployment_id"] as const;
const OF_DEVICE = ["device"] as const;

// biome-ignore format: a table should look like one
export const FACTS: Record<Metric, MetricFacts> = {
  latency_p50:      { unit: "ms",       comparison: "above", targets: OF_DEPLOYMENT },
  latency_p95:      { unit: "ms",       comparison: "above", targets: OF_DEPLOYMENT },
  error_rate:       { unit: "ratio",    comparison: "above", targets: OF_DEPLOYMENT },
  tokens:           { unit: "tokens",   comparison: "above", targets: OF_DEPLOYMENT },
  score_mean:       { unit: "score",    comparison: "below", targets: OF_SCORE },
  score_psi:        { unit: "psi",      comparison: "above", targets: OF_SCORE },
  score_ks:         { unit: "ratio",    comparison: "above", targets: OF_SCORE },
  reward:           { unit: "reward",   comparison: "below", targets: ["job_id!"] },
  gpu_memory:       { unit: "ratio",    comparison: "above", targets: OF_DEVICE },
  gpu_temperature:  { unit: "celsius",  comparison: "above", targets: OF_DEVICE },
  disk_free:        { unit: "bytes",    comparison: "below", targets: [], operator: true },
  cost:             { unit: "usd",      comparison: "above", targets: [] },
  balance:          { unit: "usd",      comparison: "below", targets: [] },
  webhook_failures: { unit: "attempts", comparison: "above", targets: ["endpoint_id"] },
};

const isDrift = (metric: Metric) => metric === "score_psi" || metric === "score_ks";
export const isOfScore = (metric: Metric) => metric === "score_mean" || isDrift(metric);

const GAUGES: ReadonlySet<Metric> = new Set<Metric>(["gpu_memory", "gpu_temperature", "disk_free", "balance"]);
/** The value is that of the moment: nothing tells what it was, unless a monitor recorded it. */
export const isGauge = (metric: Metric) => GAUGES.has(metric);
