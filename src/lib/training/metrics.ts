/** Names of metrics (TRL's if TRL has one), and downsampling of long series. */

/**
 * Metrics of every method. Rates are per second, `gpu_memory_peak_bytes` in bytes, times in seconds. `step_time` is the sum
 * of `rollout_time`, `reward_time`, `update_time` and `other_time`. The last two are there on GPUs that report their power.
 */
export const COMMON_METRICS = [
  "loss",
  "learning_rate",
  "grad_norm",
  "num_tokens",
  "step_time",
  "update_time",
  "other_time",
  "tokens_per_second",
  "gpu_memory_peak_bytes",
  "power_watts",
  "step_energy_joules",
] as const;

/** Metrics of `grpo` and `rloo`. `sync_time` is a part of `other_time`. Additional ones: `rewards/<function>/mean` and `/std`, and the `sampling/…` of importance.ts. */
export const GRPO_METRICS = [
  "reward",
  "reward_std",
  "frac_reward_zero_std",
  "kl",
  "entropy",
  "clip_ratio/low_mean",
  "clip_ratio/low_min",
  "clip_ratio/high_mean",
  "clip_ratio/high_max",
  "clip_ratio/region_mean",
  "completions/mean_length",
  "completions/min_length",
  "completions/max_length",
  "completions/clipped_ratio",
  "completions/mean_terminated_length",
  "completions/min_terminated_length",
  "completions/max_terminated_length",
  "sync_time",
  "rollout_time",
  "reward_time",
  "rollout_tokens_per_second",
  "reward_latency_p95",
  "errored_rollouts",
] as const;

export const SFT_METRICS = ["mean_token_accuracy", "entropy"] as const;

export const DPO_METRICS = [
  "rewards/chosen",
  "rewards/rejected",
  "rewards/margins",
  "rewards/accuracies",
  "logps/chosen",
  "logps/rejected",
] as const;

/** `kl` is the estimate of the step. Means of a kind of answer are missing in a step without that kind. */
export const KTO_METRICS = [
  "kl",
  "rewards/chosen",
  "rewards/rejected",
  "rewards/margins",
  "logps/chosen",
  "logps/rejected",
] as const;

/** Log probabilities and rewards are means over the tokens of an answer. */
export const ORPO_METRICS = [...DPO_METRICS, "nll_loss", "log_odds_ratio", "log_odds_chosen"] as const;

/** The metric that shows a method's progress. */
export const HEADLINE_METRIC = {
  grpo: "reward",
  rloo: "reward",
  sft: "loss",
  dpo: "rewards/margins",
  kto: "rewards/margins",
  orpo: "rewards/margins",
} as const;

/** `truncated`: it reached max_completion_length without an end. */
export type CompletionLength = { tokens: number; truncated: boolean };

export function completionMetrics(completions: readonly CompletionLength[]): Record<string, number> {
  if (completions.length === 0) return {};
  const ended = completions.filter(({ truncated }) => !truncated);
  return {
    ...lengths("", completions),
    "completions/clipped_ratio": 1 - ended.length / completions.length,
    ...lengths("_terminated", ended),
  };
}

/** Without completions all are 0, as in TRL. */
function lengths(kind: "" | "_terminated", completions: readonly CompletionLength[]): Record<string, number> {
  const tokens = completions.length === 0 ? [0] : completions.map((completion) => completion.tokens);
  return {
    [`completions/mean${kind}_length`]: tokens.reduce((a, b) => a + b) / tokens.length,
    [`completions/min${kind}_length`]: tokens.reduce((a, b) => Math.min(a, b)),
    [`completions/max${kind}_length`]: tokens.reduce((a, b) => Math.max(a, b)),
  };
}

/** One step's metrics. */
export type MetricPoint = { step: number; epoch: number; time: string; values: Record<string, number> };
export type Thinned = { points: MetricPoint[]; sampled: boolean };

/**
 * Keeps at most `maxPoints` values of each key. A series is cut into buckets of adjacent points, and each keeps its
 * minimum and maximum at their own steps, so that spikes survive. First and last stay too. A point has only the keys
 * that were kept.
 */
export function thin(points: readonly MetricPoint[], maxPoints: number): Thinned {
  if (points.length <= maxPoints) return { points: [...points], sampled: false };
  const keys = new Set(points.flatMap(({ values }) => Object.keys(values)));
  const kept = new Map<number, Record<string, number>>();
  for (const key of keys) {
    const series = points.flatMap(({ values }, at) => (values[key] === undefined ? [] : [{ at, value: values[key] }]));
    for (const { at, value } of thinSeries(series, maxPoints)) {
      const values = kept.get(at) ?? {};
      values[key] = value;
      kept.set(at, values);
    }
  }
  const order = [...kept.keys()].sort((a, b) => a - b);
  return { points: order.map((at) => ({ ...points[at]!, values: kept.get(at)! })), sampled: true };
}

type Sample = { at: number; value: number };

function thinSeries(series: readonly Sample[], maxPoints: number): Sample[] {
  if (series.length <= maxPoints) return [...series];
  const first = series[0]!;
  const last = series.at(-1)!;
  if (maxPoints < 4) return [first, last].slice(0, Math.max(1, maxPoints));
  const between = series.slice(1, -1);
  const buckets = Math.floor((maxPoints - 2) / 2);
  const kept = [first];
  for (let b = 0; b < buckets; b++) {
    const from = Math.floor((b * between.length) / buckets);
    const bucket = between.slice(from, Math.floor(((b + 1) * between.length) / buckets));
    const least = bucket.reduce((a, c) => (c.value < a.value ? c : a));
    const greatest = bucket.reduce((a, c) => (c.value > a.value ? c : a));
    kept.push(least, ...(least.at === greatest.at ? [] : [greatest]));
  }
  kept.push(last);
  return kept;
}
