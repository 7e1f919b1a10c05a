/**
 * Warnings from the history of metrics. An alarm is raised once when its condition begins, and again only after the
 * condition has ended. `raised` is the state between two calls.
 */
import { spreadOf } from "../../../lib/training/loss/advantages.ts";

export const ALARMS = [
  "reward_collapse",
  "kl_blow_up",
  "truncation",
  "entropy_collapse",
  "same_rewards",
  "replay_stalled",
] as const;
export type AlarmCode = (typeof ALARMS)[number];
export type Alarm = { code: AlarmCode; step: number; message: string };

/** Oldest first, one entry for each step. */
export type StepMetrics = { step: number; values: Readonly<Record<string, number>> };

export function newAlarms(
  history: readonly StepMetrics[],
  raised: readonly AlarmCode[],
): { alarms: Alarm[]; raised: AlarmCode[] } {
  const step = history.at(-1)?.step ?? 0;
  const holding = ALARMS.flatMap((code) => {
    const message = RULES[code](history);
    return message === null ? [] : [{ code, step, message }];
  });
  return {
    alarms: holding.filter(({ code }) => !raised.includes(code)),
    raised: holding.map(({ code }) => code),
  };
}

type Rule = (history: readonly StepMetrics[]) => string | null;

/** Number of steps whose mean is checked; reward is noisier than the others. */
const WINDOW = 5;
const REWARD_WINDOW = 10;
const MAX_KL = 1; // nats per token
const MAX_TRUNCATED = 0.5;
const ENTROPY_LEFT = 0.1; // fraction of the initial entropy
const SAME_WINDOW = 20;
const REPLAY_WINDOW = 20; // draws

const RULES: Record<AlarmCode, Rule> = {
  reward_collapse: rewardCollapse,
  kl_blow_up: klBlowUp,
  truncation: (history) => {
    const share = latest(series(history, "completions/clipped_ratio"), WINDOW);
    if (share === null || share <= MAX_TRUNCATED) return null;
    return `${Math.round(100 * share)} % of the completions reach max_completion_length without an end. Raise max_completion_length, or set mask_truncated_completions`;
  },
  entropy_collapse: (history) => {
    const entropy = series(history, "entropy");
    if (entropy.length < 2 * WINDOW) return null;
    const first = mean(entropy.slice(0, WINDOW));
    const last = mean(entropy.slice(-WINDOW));
    if (last >= ENTROPY_LEFT * first) return null;
    return `entropy fell from ${say(first)} to ${say(last)}: the model explores little. Raise temperature, epsilon_high or beta, or lower learning_rate`;
  },
  replay_stalled: (history) => {
    const unchanged = history.at(-1)?.values["sampling/replay_unchanged"] ?? 0;
    if (unchanged < REPLAY_WINDOW) return null;
    return `in ${unchanged} draws no prompt became a rare success or stopped being one, so replay draws the same prompts again and again. Raise learning_rate or num_generations, or use sampling difficulty`;
  },
  same_rewards: (history) => {
    if (latest(series(history, "frac_reward_zero_std"), SAME_WINDOW) !== 1) return null;
    return `in ${SAME_WINDOW} steps no group had two different rewards, so nothing is learned. Cancel the job, or use harder prompts or a finer reward in the next one`;
  },
};

/**
 * The mean of the last steps is far below the best mean: by more than half of the gain, by a tenth of the best, and by
 * more than the noise between steps explains.
 */
function rewardCollapse(history: readonly StepMetrics[]): string | null {
  const rewards = series(history, "reward");
  if (rewards.length < 2 * REWARD_WINDOW) return null;
  const means = rollingMeans(rewards, REWARD_WINDOW);
  const best = means.reduce((a, b) => Math.max(a, b));
  const last = means.at(-1)!;
  const changes = rewards.slice(1).map((reward, i) => reward - rewards[i]!);
  // standard deviation of the difference of two window means
  const noise = (spreadOf(changes).std ?? 0) / Math.sqrt(REWARD_WINDOW);
  const limit = Math.max(4 * noise, 0.5 * (best - means[0]!), 0.1 * Math.abs(best));
  if (best - last <= limit) return null;
  return `reward fell from ${say(best)} to ${say(last)}. Lower learning_rate or raise beta, and deploy an earlier checkpoint`;
}

/** True above 1 nat per token, or ten times the usual value once that is no longer small. */
function klBlowUp(history: readonly StepMetrics[]): string | null {
  const kl = series(history, "kl");
  const last = latest(kl, WINDOW);
  if (last === null) return null;
  const usual = median(kl.slice(0, -WINDOW));
  const grown = usual !== null && last > 0.1 * MAX_KL && last > 10 * usual;
  if (last <= MAX_KL && !grown) return null;
  return `kl is ${say(last)} nats per token: the model is far from its start. Raise beta or lower learning_rate`;
}

function series(history: readonly StepMetrics[], key: string): number[] {
  return history.flatMap(({ values }) => (values[key] === undefined ? [] : [values[key]]));
}

/** Mean of the last `count` values; null if there are fewer. */
const latest = (values: readonly number[], count: number) =>
  values.length < count ? null : mean(values.slice(-count));
const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;
const say = (value: number) => Number(value.toPrecision(3)).toString();

function median(values: readonly number[]): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  if (sorted.length === 0) return null;
  return Number.isInteger(middle) ? (sorted[middle - 1]! + sorted[middle]!) / 2 : sorted[Math.floor(middle)]!;
}

function rollingMeans(values: readonly number[], window: number): number[] {
  return values.slice(window - 1).map((_, end) => mean(values.slice(end, end + window)));
}
