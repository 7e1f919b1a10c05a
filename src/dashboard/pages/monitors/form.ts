/** The form of a monitor and the request that it makes. Pure. */
import type { Monitor } from "../../../resources/watching/monitors/schema.ts";
import { METRICS, type Metric, type Target } from "./words.ts";

const FIGURES = ["alert", "warning", "alert_recovery", "warning_recovery"] as const;
const COUNTS = ["evaluations", "recovery_evaluations", "min_samples"] as const;
export type Form = Record<"name" | "window" | (typeof FIGURES)[number] | (typeof COUNTS)[number] | Target, string> & {
  metric: Metric;
  comparison: Monitor["comparison"];
  no_data: Monitor["no_data"];
};

export const EMPTY: Form = {
  name: "",
  metric: "latency_p95",
  comparison: "above",
  window: "300",
  alert: "",
  warning: "",
  alert_recovery: "",
  warning_recovery: "",
  evaluations: "1",
  recovery_evaluations: "1",
  min_samples: "1",
  no_data: "no_data",
  deployment_id: "",
  job_id: "",
  endpoint_id: "",
  device: "",
  score: "",
};

const text = (value: number | null) => (value === null ? "" : String(value));

export const formOf = (monitor: Monitor): Form => ({
  name: monitor.name,
  metric: monitor.metric,
  comparison: monitor.comparison,
  window: String(monitor.window_seconds),
  alert: text(monitor.thresholds.alert),
  warning: text(monitor.thresholds.warning),
  alert_recovery: text(monitor.thresholds.alert_recovery),
  warning_recovery: text(monitor.thresholds.warning_recovery),
  evaluations: String(monitor.evaluations),
  recovery_evaluations: String(monitor.recovery_evaluations),
  min_samples: String(monitor.min_samples),
  no_data: monitor.no_data,
  deployment_id: monitor.deployment_id ?? "",
  job_id: monitor.job_id ?? "",
  endpoint_id: monitor.endpoint_id ?? "",
  device: monitor.device ?? "",
  score: monitor.score ?? "",
});

const figure = (typed: string) => (typed.trim() === "" ? undefined : Number(typed));

/** Fields that can be changed later, too. */
export const ruleOf = (form: Form) => ({
  comparison: form.comparison,
  window_seconds: Number(form.window),
  thresholds: Object.fromEntries(FIGURES.map((name) => [name, figure(form[name])])),
  ...Object.fromEntries(COUNTS.map((name) => [name, figure(form[name])])),
  no_data: form.no_data,
});

const targetsOf = (form: Form) =>
  Object.fromEntries(
    METRICS[form.metric].targets.flatMap((name) => (form[name].trim() === "" ? [] : [[name, form[name].trim()]])),
  );

/** The figure and the rule: everything but the name. */
export const previewOf = (form: Form) => ({ metric: form.metric, ...targetsOf(form), ...ruleOf(form) });

/** False while a field is missing without which the server can only refuse. */
export const isComplete = ({ metric, alert, warning, job_id: job, score }: Form): boolean =>
  (alert.trim() !== "" || warning.trim() !== "") &&
  (!METRICS[metric].needs || (METRICS[metric].needs === "job_id" ? job : score).trim() !== "");
