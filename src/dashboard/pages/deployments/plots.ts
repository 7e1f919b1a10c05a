/** Curves of a deployment's traffic. Pure. */
import type { DeploymentTraffic, TrafficPoint } from "../../../resources/serving/deployments/traffic/schema.ts";
import { duration, number, percent } from "../../data/format.ts";
import type { Series } from "../../kit/chart/series.ts";

export type Plot = {
  key: string;
  title: string;
  /** Name of the y axis with its unit. */
  unit: string;
  x: readonly number[];
  series: readonly Series[];
  format: (value: number) => string;
};

type Line = readonly [label: string, token: string, figure: (point: TrafficPoint) => number | null];

const seconds = (ms: number) => duration(ms / 1000);
const plain = (value: number) => number(value);

const percentiles = (times: (point: TrafficPoint) => TrafficPoint["answer_ms"]): readonly Line[] => [
  ["p50", "--c1", (point) => times(point)?.p50 ?? null],
  ["p95", "--c2", (point) => times(point)?.p95 ?? null],
  ["p99", "--c4", (point) => times(point)?.p99 ?? null],
];

/** The part of the prompts that was in the cache. Null: no prompt was read. */
export const cachedShare = ({ prompt_tokens: all, cached_tokens: cached }: TrafficPoint) =>
  all === 0 ? null : cached / all;

const PLOTS: readonly (Omit<Plot, "x" | "series"> & { lines: readonly Line[] })[] = [
  {
    key: "requests",
    title: "Requests",
    unit: "requests per second",
    format: plain,
    lines: [
      ["Answered", "--c1", (point) => (point.requests - point.failed_requests) / point.seconds],
      ["Failed", "--bad", (point) => point.failed_requests / point.seconds],
    ],
  },
  {
    key: "tokens",
    title: "Tokens",
    unit: "tokens per second",
    format: plain,
    lines: [
      ["Generated", "--c1", (point) => point.completion_tokens / point.seconds],
      ["Read", "--c3", (point) => (point.prompt_tokens - point.cached_tokens) / point.seconds],
      ["From the cache", "--c5", (point) => point.cached_tokens / point.seconds],
    ],
  },
  {
    key: "first_token",
    title: "Time to the first token",
    unit: "time",
    format: seconds,
    lines: percentiles((point) => point.first_token_ms),
  },
  {
    key: "answer",
    title: "Time of the whole answer",
    unit: "time",
    format: seconds,
    lines: percentiles((point) => point.answer_ms),
  },
  {
    key: "queue",
    title: "Requests at once",
    unit: "most requests",
    format: plain,
    lines: [
      ["All", "--c1", (point) => point.most_open],
      ["Waiting for a replica", "--c2", (point) => point.most_waiting],
    ],
  },
  {
    key: "cache",
    title: "Prompt tokens from the cache",
    unit: "share",
    format: (value) => percent(value),
    lines: [["From the cache", "--c6", cachedShare]],
  },
];

export function plotsOf({ data }: Pick<DeploymentTraffic, "data">): Plot[] {
  const x = data.map(({ time }) => Date.parse(time) / 1000);
  return PLOTS.map(({ lines, ...plot }) => ({
    ...plot,
    x,
    series: lines.map(([label, token, figure]) => ({ label, token, values: data.map(figure) })),
  }));
}
