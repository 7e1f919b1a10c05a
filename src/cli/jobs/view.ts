/** Formats the progress of a training job as lines of text. Pure. */

import { formatDuration } from "../../lib/time.ts";
import { HEADLINE_METRIC } from "../../lib/training/metrics.ts";
import { cutTo } from "../text/table.ts";
import type { Job } from "./find.ts";

/** The metrics of one step, as `GET …/metrics` returns them. */
export type Point = { step: number; values: Record<string, number> };
export type JobProgress = { job: Job; points: readonly Point[] };

const BAR = 30;
const SPARKS = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"] as const;
const SPARK_WIDTH = 40;

/** At most `width` columns. Each is the mean of several steps, so that one outlier does not dominate. */
export function sparkline(values: readonly number[], width = SPARK_WIDTH): string {
  const finite = values.filter(Number.isFinite);
  const columns = Math.min(width, finite.length);
  const means = Array.from({ length: columns }, (_, i) => {
    const from = Math.floor((i * finite.length) / columns);
    const stretch = finite.slice(from, Math.floor(((i + 1) * finite.length) / columns));
    return stretch.reduce((sum, value) => sum + value, 0) / stretch.length;
  });
  const least = Math.min(...means);
  const span = Math.max(...means) - least;
  const level = (value: number) => (span === 0 ? 0 : Math.round(((value - least) / span) * (SPARKS.length - 1)));
  return means.map((value) => SPARKS[level(value)]).join("");
}

export function bar(fraction: number, width = BAR): string {
  const filled = Math.round(Math.max(0, Math.min(1, fraction)) * width);
  return `${"█".repeat(filled)}${"░".repeat(width - filled)} ${String(Math.floor(fraction * 100)).padStart(3)} %`;
}

/** Four significant digits: `0.3125`, `12.35`, `1.25e-4`, `4210`. */
export function shortNumber(value: number): string {
  if (!Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  if (size !== 0 && size < 0.001) return value.toExponential(2).replace(/\.?0+e/, "e");
  return String(size >= 1000 ? Math.round(value) : Number(value.toPrecision(4)));
}

/** The metric that shows best how the training goes: reward for GRPO, margin for DPO, otherwise loss. */
export const headlineOf = (method: Job["method"]): string => (method === "custom" ? "loss" : HEADLINE_METRIC[method]);

export const seriesOf = (points: readonly Point[], key: string) =>
  points.flatMap(({ values }) => (values[key] === undefined ? [] : [values[key]]));

/** The total number of steps of a custom job is unknown. */
export const stepOf = ({ progress: { step, total_steps } }: Job) =>
  total_steps > 0 ? `${step}/${total_steps}` : String(step);

const fractionOf = ({ progress: { step, total_steps } }: Job) => (total_steps > 0 ? step / total_steps : 0);

/** The reason why a job does not run yet. */
export function waitingFor({ status, queue_position, queue_reason }: Job): string | undefined {
  if (status === "queued")
    return (
      queue_reason ?? (queue_position === null ? "waiting for its turn" : `position ${queue_position} in the queue`)
    );
  if (status === "provisioning") return "the trainer is loading the model";
  return undefined;
}

const etaOf = ({ status, progress: { eta_seconds } }: Job) =>
  status !== "running" || eta_seconds === null ? [] : [`${formatDuration(eta_seconds * 1000)} left`];

/** The live view, redrawn in place. No line is wider than `columns`. */
export function liveLines({ job, points }: JobProgress, columns: number): string[] {
  const waiting = waitingFor(job);
  const head = [job.output_name, `${job.method} of ${job.base_model}`, job.status, waiting];
  const lines = [
    head.filter((each) => each !== undefined).join(" · "),
    [bar(fractionOf(job)), `step ${stepOf(job)}`, ...etaOf(job)].join("  "),
  ];
  const key = headlineOf(job.method);
  const series = seriesOf(points, key);
  const [first, last] = [series[0], series.at(-1)];
  if (first !== undefined && last !== undefined)
    lines.push(`${key} ${shortNumber(last)}  ${sparkline(series)}  from ${shortNumber(first)}`);
  const rest = restOf(points.at(-1)?.values ?? job.latest_metrics, key);
  if (rest !== "") lines.push(rest);
  return lines.map((line) => cut(line, columns));
}

const SHOWN: [key: string, label: string, unit: string][] = [
  ["loss", "loss", ""],
  ["reward_std", "spread", ""],
  ["rewards/accuracies", "accuracy", ""],
  ["kl", "kl", ""],
  ["grad_norm", "gradient", ""],
  ["completions/mean_length", "length", ""],
  ["tokens_per_second", "", " tokens/s"],
];

const restOf = (values: Record<string, number>, headline: string) =>
  SHOWN.flatMap(([key, label, unit]) => {
    const value = values[key];
    return value === undefined || key === headline ? [] : [`${label} ${shortNumber(value)}${unit}`.trim()];
  }).join("  ");

/** One line with the current progress, for output that cannot be redrawn. */
export function plainLine({ job, points }: JobProgress): string {
  const waiting = waitingFor(job);
  if (waiting !== undefined) return `${job.status}: ${waiting}`;
  const values = points.at(-1)?.values ?? job.latest_metrics;
  const key = headlineOf(job.method);
  const headline = values[key] === undefined ? [] : [`${key} ${shortNumber(values[key])}`];
  const rest = restOf(values, key);
  return [job.status, `step ${stepOf(job)}`, ...headline, ...(rest ? [rest] : []), ...etaOf(job)].join("  ");
}

const ENDINGS: Partial<Record<Job["status"], string>> = {
  completed: "completed",
  failed: "failed",
  cancelled: "was cancelled",
};

/** The result of a job that is over. */
export function lastLine({ job, points }: JobProgress): string {
  const took =
    job.started_at !== null && job.completed_at !== null
      ? ` after ${formatDuration(Date.parse(job.completed_at) - Date.parse(job.started_at))}`
      : "";
  const series = seriesOf(points, headlineOf(job.method));
  const [first, last] = [series[0], series.at(-1)];
  const moved =
    first === undefined || last === undefined
      ? ""
      : `, ${headlineOf(job.method)} ${shortNumber(first)} → ${shortNumber(last)}`;
  const early = job.stopped_early ? `; stopped early: ${job.stopped_early}` : "";
  const why = job.error ? `: ${job.error.message} (${job.error.code})` : early;
  return `${job.output_name} (${job.id}) ${ENDINGS[job.status] ?? `is ${job.status}`}${took}${moved}${why}`;
}

/** The last column stays free: some terminals wrap when it is written. */
const cut = (line: string, columns: number) => cutTo(line, columns - 1);
