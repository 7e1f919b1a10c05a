/** Names of metrics (TRL's if TRL has one), and downsampling of long series. */

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

/**
 * Keeps at most `maxPoints` values of each key, without holding the others. A series is cut into buckets of adjacent
 * points, and each keeps its minimum and maximum at their own steps, so that spikes survive. First and last stay too. A
 * point has only the keys that were kept. `counts`: how many points have each key; other keys are left out.
 */
export function createThinner(counts: ReadonlyMap<string, number>, maxPoints: number) {
  const kept = new Map<number, MetricPoint>(); // by step
  const keep = (key: string, { point, value }: Sample) => {
    const { step, epoch, time } = point;
    const existing = kept.get(step);
    if (existing) existing.values[key] = value;
    else kept.set(step, { step, epoch, time, values: { [key]: value } });
  };
  const series = new Map<string, Series>();
  for (const [key, count] of counts)
    series.set(
      key,
      thinSeries(count, maxPoints, (sample) => keep(key, sample)),
    );
  return {
    /** Points come in the order of their steps. */
    add(point: MetricPoint) {
      for (const key in point.values) series.get(key)?.add({ point, value: point.values[key]! });
    },
    end(): MetricPoint[] {
      for (const each of series.values()) each.end();
      return [...kept.values()].sort((a, b) => a.step - b.step);
    },
  };
}

type Sample = { point: MetricPoint; value: number };
type Series = { add: (sample: Sample) => void; end: () => void };

function thinSeries(count: number, maxPoints: number, keep: (sample: Sample) => void): Series {
  if (count <= maxPoints) return { add: keep, end: () => {} };
  const buckets = Math.floor((maxPoints - 2) / 2); // between the first and the last
  let at = 0;
  let bucket = 0;
  let least: Sample | undefined;
  let greatest: Sample | undefined;
  const close = () => {
    if (least) keep(least);
    if (greatest && greatest !== least) keep(greatest);
    least = undefined;
    greatest = undefined;
  };
  const add = (sample: Sample) => {
    const number = at++;
    if (number === 0) return keep(sample);
    if (number >= count - 1) return void (maxPoints > 1 && keep(sample));
    if (buckets < 1) return;
    if (number - 1 >= Math.floor(((bucket + 1) * (count - 2)) / buckets)) {
      close();
      bucket++;
    }
    if (!least || sample.value < least.value) least = sample;
    if (!greatest || sample.value > greatest.value) greatest = sample;
  };
  return { add, end: close };
}
