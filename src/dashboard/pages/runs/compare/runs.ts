/** The runs of a comparison, loaded again while one of them goes on. */
import { useMemo } from "preact/hooks";
import { isJobOver } from "../../../../lib/training/job_status.ts";
import type { ApiError } from "../../../data/api.ts";
import { type Loaded, useResources } from "../../../data/resource.ts";
import { type JobMetrics, jobPath, type Point, type TrainingJob } from "../types.ts";

/** `token`: the name of its colour. */
export type Run = { job: TrainingJob; points: readonly Point[]; token: string };

/** The key of a metric. */
export type CurveSpec = string;

const TITLES: Readonly<Record<CurveSpec, string>> = {
  reward: "Reward",
  eval_reward: "Reward on held-out rows",
  loss: "Loss",
  kl: "KL to base",
  entropy: "Entropy",
  grad_norm: "Gradient norm",
  "completions/mean_length": "Length in tokens",
  "completions/clipped_ratio": "Share cut off",
  mean_token_accuracy: "Token accuracy",
  "rewards/margins": "Reward margin",
  tokens_per_second: "Tokens a second",
};

/** Shown until the reader chooses others. Those that no run has are left out. */
export const CURVES: readonly CurveSpec[] = Object.keys(TITLES);

export const titleOf = (key: CurveSpec): string => TITLES[key] ?? key;

const metricsPath = (id: string, curves: readonly CurveSpec[]) => {
  const keys = [...new Set([...curves, "num_tokens"])].map(encodeURIComponent).join();
  return `${jobPath(id)}/metrics?max_points=1000&keys=${keys}`;
};
const EVERY_MS = 3_000;

/** `runs` is undefined until each of them was read or refused. `everyMs`: the time between two loads. */
export function useRuns(ids: readonly string[], curves: readonly CurveSpec[], everyMs = EVERY_MS) {
  const pauseOf = (parts: readonly Loaded<TrainingJob>[]) => (parts.some(goesOn) ? everyMs : undefined);
  const jobs = useResources<TrainingJob>(ids.map(jobPath), { everyMs: pauseOf });
  const paths = ids.map((id) => metricsPath(id, curves));
  const isWanted = (parts: readonly Loaded<JobMetrics>[]) =>
    jobs.parts.some(goesOn) || parts.some(({ error }) => isLost(error)); // the curve of a run that ended meanwhile
  const metrics = useResources<JobMetrics>(paths, { everyMs: (parts) => (isWanted(parts) ? everyMs : undefined) });
  const comparison = useMemo(() => comparisonOf(jobs.parts, metrics.parts), [jobs.parts, metrics.parts]);
  return { ...comparison, refresh: async () => void (await Promise.all([jobs.refresh(), metrics.refresh()])) };
}

const isLost = (error: ApiError | undefined) => error?.status === 0;

/** A run whose status is out of reach may go on: its curve comes again with the connection. */
const goesOn = ({ data, error }: Loaded<TrainingJob>) =>
  isLost(error) || (!error && data !== undefined && !isJobOver(data.status));

/** Every run that can be read, with the error of one that cannot. Without a connection, what was read before stays. */
export function comparisonOf(
  jobs: readonly Loaded<TrainingJob>[],
  metrics: readonly Loaded<JobMetrics>[],
): { runs: Run[] | undefined; error: ApiError | undefined } {
  const parts = [...jobs, ...metrics];
  if (parts.some(({ data, error }) => !data && !error)) return { runs: undefined, error: undefined };
  const faultOf = ({ data, error }: Loaded<unknown>) => (isLost(error) && data ? undefined : error);
  const runs = jobs.flatMap((job, i): Run[] => {
    const curves = metrics[i];
    if (!job.data || !curves?.data || faultOf(job) || faultOf(curves)) return [];
    return [{ job: job.data, points: curves.data.data, token: `--c${i + 1}` }];
  });
  return { runs, error: parts.map(faultOf).find((error) => error !== undefined) };
}
