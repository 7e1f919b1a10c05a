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
  distill: "teacher_kl",
  sft: "loss",
  dpo: "rewards/margins",
  kto: "rewards/margins",
  orpo: "rewards/margins",
} as const;

const LESS_IS_BETTER = ["loss", "nll_loss", "teacher_kl", "errored_rollouts", "frac_reward_zero_std"];

/** True if a smaller value of the metric means a better model. A prefix of held-out rows does not matter. */
export const isLowerBetter = (metric: string): boolean => LESS_IS_BETTER.includes(metric.replace(/^eval_/, ""));

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

/** One rollout of several turns. */
export type RolloutTurns = { turns: number; calls: number; failedCalls: number };

/** Calls of tools for each rollout, and the share of calls that failed, as in TRL. Nothing for completions of one answer. */
export function turnMetrics(rollouts: readonly RolloutTurns[]): Record<string, number> {
  if (rollouts.length === 0) return {};
  const sum = (of: keyof RolloutTurns) => rollouts.reduce((total, each) => total + each[of], 0);
  return {
    "turns/mean": sum("turns") / rollouts.length,
    "tools/call_frequency": sum("calls") / rollouts.length,
    "tools/failure_frequency": sum("failedCalls") / Math.max(1, sum("calls")),
  };
}

/** One step's metrics. */
export type MetricPoint = { step: number; epoch: number; time: string; values: Record<string, number> };

/** The least and the greatest value of a key. */
export type Range = { least: number; greatest: number };

/** The result of one pass over the points. `groups`: points with the same keys, by `groupOf`. */
export type Survey = { groups: ReadonlyMap<string, number>; ranges: ReadonlyMap<string, Range> };

const MOST_GROUPS = 16;
const OTHERS = "";
const LEAST_SHARE = 8; // points of a group; with fewer there is one group

/** Points with the same keys are thinned together. Keys that few points have, such as those of evaluations, stay visible. */
export function groupOf(point: MetricPoint, groups: ReadonlyMap<string, number>): string {
  const name = Object.keys(point.values).join();
  return groups.has(name) || groups.size < MOST_GROUPS ? name : OTHERS;
}

/**
 * Keeps at most `maxPoints` points, whole, without holding the others. Each group gets its share of them. Its points are
 * cut into buckets of adjacent ones, and each bucket keeps the minimum and the maximum of the key that moves most in it,
 * so that spikes survive. First and last stay too. Keys without a range are left out.
 */
export function createThinner({ groups, ranges }: Survey, maxPoints: number) {
  const kept: MetricPoint[] = [];
  const thinned = new Map<string, Thinning>();
  const bySize = sharesOf(groups, maxPoints);
  let left = maxPoints;
  for (const [i, [group, count]] of bySize.entries()) {
    const share = Math.min(count, Math.floor(left / (bySize.length - i)));
    left -= share;
    thinned.set(
      group,
      thinGroup({ count, most: share, ranges }, (point) => kept.push(point)),
    );
  }
  return {
    /** Points come in the order of their steps. */
    add(point: MetricPoint) {
      (thinned.get(groupOf(point, groups)) ?? thinned.get(OTHERS))?.add(withKeys(point, ranges));
    },
    end(): MetricPoint[] {
      for (const each of thinned.values()) each.end();
      return kept.sort((a, b) => a.step - b.step);
    },
  };
}

/** Groups with the number of their points, the smallest first. */
function sharesOf(groups: ReadonlyMap<string, number>, maxPoints: number): [string, number][] {
  if (maxPoints >= LEAST_SHARE * groups.size) return [...groups].sort(([, a], [, b]) => a - b);
  return [[OTHERS, [...groups.values()].reduce((sum, count) => sum + count, 0)]];
}

function withKeys(point: MetricPoint, ranges: ReadonlyMap<string, Range>): MetricPoint {
  if (Object.keys(point.values).every((key) => ranges.has(key))) return point;
  return { ...point, values: Object.fromEntries(Object.entries(point.values).filter(([key]) => ranges.has(key))) };
}

type Thinning = { add: (point: MetricPoint) => void; end: () => void };
type Group = { count: number; most: number; ranges: ReadonlyMap<string, Range> };

function thinGroup({ count, most, ranges }: Group, keep: (point: MetricPoint) => void): Thinning {
  if (count <= most) return { add: keep, end: () => {} };
  const buckets = Math.floor((most - 2) / 2); // between the first and the last
  let at = 0;
  let bucket = 0;
  let extremes = newExtremes();
  const close = () => {
    for (const point of extremes.chosen(ranges)) keep(point);
    extremes = newExtremes();
  };
  const add = (point: MetricPoint) => {
    const number = at++;
    if (most === 0) return;
    if (number === 0) return keep(point);
    if (number >= count - 1) return void (most > 1 && keep(point));
    if (buckets < 1) return;
    if (number - 1 >= Math.floor(((bucket + 1) * (count - 2)) / buckets)) {
      close();
      bucket++;
    }
    extremes.add(point);
  };
  return { add, end: close };
}

type Extreme = { least: MetricPoint; greatest: MetricPoint };

/** The points of a bucket with the least and the greatest value of each key. */
function newExtremes() {
  const byKey = new Map<string, Extreme>();
  return {
    add(point: MetricPoint) {
      for (const key in point.values) {
        const value = point.values[key] as number;
        const extreme = byKey.get(key);
        if (!extreme) byKey.set(key, { least: point, greatest: point });
        else if (value < (extreme.least.values[key] as number)) extreme.least = point;
        else if (value > (extreme.greatest.values[key] as number)) extreme.greatest = point;
      }
    },
    /** Both points of the key that moves most, by its range over the whole run. */
    chosen(ranges: ReadonlyMap<string, Range>): MetricPoint[] {
      let most = -1;
      let best: Extreme | undefined;
      for (const [key, extreme] of byKey) {
        const { least, greatest } = ranges.get(key) ?? { least: 0, greatest: 0 };
        const moved = (extreme.greatest.values[key] as number) - (extreme.least.values[key] as number);
        const share = greatest > least ? moved / (greatest - least) : 0;
        if (share > most) [most, best] = [share, extreme];
      }
      if (!best) return [];
      return best.least === best.greatest ? [best.least] : [best.least, best.greatest];
    },
  };
}
