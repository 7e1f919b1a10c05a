/** Metrics, values and states of monitors in words. */
import type { Monitor, MonitorPreview } from "../../../resources/watching/monitors/schema.ts";
import { bytes, duration, money, NONE, number, percent, plural } from "../../data/format.ts";
import type { Tone } from "../../kit/pill.tsx";

export type Metric = Monitor["metric"];
export type Target = "deployment_id" | "job_id" | "endpoint_id" | "device" | "score";
type Facts = {
  name: string;
  unit: string;
  hint: string;
  targets: readonly Target[];
  bad: Monitor["comparison"];
  /** The field without which there is nothing to measure. */
  needs?: "job_id" | "score";
  /** For keys with the scope admin only. */
  operator?: true;
};

// biome-ignore format: a table should look like one
export const METRICS: Readonly<Record<Metric, Facts>> = {
  latency_p50:      { name: "Latency, half of the requests", unit: "ms", hint: "milliseconds", targets: ["deployment_id"], bad: "above" },
  latency_p95:      { name: "Latency, slowest 5 %", unit: "ms", hint: "milliseconds", targets: ["deployment_id"], bad: "above" },
  error_rate:       { name: "Share of failed requests", unit: "ratio", hint: "0.05 is 5 %", targets: ["deployment_id"], bad: "above" },
  tokens:           { name: "Tokens in the window", unit: "tokens", hint: "tokens", targets: ["deployment_id"], bad: "above" },
  score_mean:       { name: "Mean of a score", unit: "score", hint: "in the unit of the score", targets: ["score", "deployment_id"], bad: "below", needs: "score" },
  score_psi:        { name: "Drift of a score (PSI)", unit: "psi", hint: "0.2 is a clear change", targets: ["score", "deployment_id"], bad: "above", needs: "score" },
  score_ks:         { name: "Drift of a score (KS distance)", unit: "ratio", hint: "from 0 to 1", targets: ["score", "deployment_id"], bad: "above", needs: "score" },
  reward:           { name: "Reward of a training run", unit: "reward", hint: "reward", targets: ["job_id"], bad: "below", needs: "job_id" },
  gpu_memory:       { name: "GPU memory in use", unit: "ratio", hint: "0.9 is 90 %", targets: ["device"], bad: "above" },
  gpu_temperature:  { name: "GPU temperature", unit: "celsius", hint: "degrees Celsius", targets: ["device"], bad: "above" },
  disk_free:        { name: "Free disk space", unit: "bytes", hint: "bytes", targets: [], bad: "below", operator: true },
  cost:             { name: "Cost in the window", unit: "usd", hint: "dollars", targets: [], bad: "above" },
  balance:          { name: "Credit that is left", unit: "usd", hint: "dollars", targets: [], bad: "below" },
  webhook_failures: { name: "Failed webhook deliveries", unit: "attempts", hint: "attempts", targets: ["endpoint_id"], bad: "above" },
};

const UNITS: Readonly<Record<string, (value: number) => string>> = {
  ms: (value) => duration(value / 1000),
  ratio: (value) => percent(value, 1),
  usd: money,
  bytes,
  celsius: (value) => `${number(value)} °C`,
  tokens: (value) => `${number(value)} tokens`,
  attempts: (value) => number(value),
};

export const inUnit = (value: number | null, unit: string): string =>
  value === null ? NONE : (UNITS[unit]?.(value) ?? number(value));

/** "It would have fired 3 times: 2 alerts (40 min) and 1 warning (5 min)." */
export function firedText(
  preview: Pick<MonitorPreview, "events" | "alerts" | "warnings" | "alert_seconds" | "warning_seconds">,
) {
  const { events, alerts, warnings, alert_seconds: alertS, warning_seconds: warningS } = preview;
  if (events === 0) return "It would not have fired.";
  const parts = [
    ...(alerts > 0 ? [`${plural(alerts, "alert")} (${duration(alertS)})`] : []),
    ...(warnings > 0 ? [`${plural(warnings, "warning")} (${duration(warningS)})`] : []),
  ];
  return `It would have fired ${events === 1 ? "once" : plural(events, "time")}: ${parts.join(" and ")}.`;
}

type Severity = Monitor["severity"];
export const SEVERITIES: Readonly<Record<Severity, readonly [shown: string, tone: Tone]>> = {
  ok: ["Fine", "good"],
  warning: ["Warning", "warn"],
  alert: ["Alert", "bad"],
  no_data: ["No data", "idle"],
};

/** "Alert above 2 s, warning above 1 s" */
export function rule({ thresholds, comparison, unit }: Pick<Monitor, "thresholds" | "comparison" | "unit">): string {
  const parts = (["alert", "warning"] as const).flatMap((level) => {
    const value = thresholds[level];
    return value === null ? [] : [`${level} ${comparison} ${inUnit(value, unit)}`];
  });
  const text = parts.join(", ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export const isMuted = ({ muted_until }: Pick<Monitor, "muted_until">, nowMs: number) =>
  muted_until !== null && Date.parse(muted_until) > nowMs;
