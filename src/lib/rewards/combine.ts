/** Combines the results of several functions for the same samples into one reward for each. Pure. */
import type { Fault, Outcome } from "./contract.ts";

/** One sample. `sub_rewards` has an entry for every function. */
export type Scored = {
  index: number;
  /** Weighted sum. Null if a function failed for this sample, or all returned None. */
  reward: number | null;
  sub_rewards: Record<string, number | null>;
  /** The weight of every function. */
  weights: Record<string, number>;
  /** Time of all functions together. */
  latency_ms: number;
  /** The first fault that is not `none`. */
  error: (Fault & { reward: string }) | null;
};

export type ScoreSummary = {
  count: number;
  scored: number;
  mean: number | null;
  std: number | null;
  min: number | null;
  max: number | null;
  /** Samples without a reward by kind of fault; only kinds that occurred. */
  faults: Record<string, number>;
  latency_ms_p50: number | null;
  latency_ms_p95: number | null;
};

export type Judged = { name: string; weight: number; outcomes: readonly Outcome[] };

/**
 * None is left out of the sum, because the function does not apply. Any other fault leaves the sample without a reward.
 */
export function combine(functions: readonly Judged[], count: number): Scored[] {
  return Array.from({ length: count }, (_, index) => combineOne(functions, index));
}

function combineOne(functions: readonly Judged[], index: number): Scored {
  const scored: Scored = { index, reward: null, sub_rewards: {}, weights: {}, latency_ms: 0, error: null };
  let sum: number | null = null;
  for (const { name, weight, outcomes } of functions) {
    const outcome = outcomes[index] ?? missing();
    scored.sub_rewards[name] = outcome.value;
    scored.weights[name] = weight;
    scored.latency_ms += outcome.ms;
    if (outcome.fault === null) sum = (sum ?? 0) + weight * outcome.value;
    else if (outcome.fault.kind !== "none") scored.error ??= { ...outcome.fault, reward: name };
  }
  if (sum !== null && !Number.isFinite(sum) && scored.error === null) {
    const message = "the weighted sum is too large for a number";
    scored.error = { kind: "not_finite", message, line: null, reward: functions[0]?.name ?? "" };
  }
  if (scored.error === null) scored.reward = sum;
  return scored;
}

/** Adds the rewards that two groups of functions gave the same samples. A name that both have gets a number in the second. */
export function addScores(first: readonly Scored[], second: readonly Scored[]): Scored[] {
  return first.map((one, index) => {
    const other = second[index];
    if (!other) return one;
    const sub_rewards = { ...one.sub_rewards };
    const weights = { ...one.weights };
    for (const [name, value] of Object.entries(other.sub_rewards)) {
      const free = freeName(sub_rewards, name);
      sub_rewards[free] = value;
      weights[free] = other.weights[name] ?? 1;
    }
    const error = one.error ?? other.error;
    const rewards = [one.reward, other.reward].filter((reward) => reward !== null);
    const sum = rewards.length === 0 ? null : rewards.reduce((total, reward) => total + reward, 0);
    const latency_ms = one.latency_ms + other.latency_ms;
    return { index, reward: error ? null : sum, sub_rewards, weights, latency_ms, error };
  });
}

function freeName(taken: Readonly<Record<string, unknown>>, name: string): string {
  const base = name.replace(/#\d+$/, "");
  let free = name;
  for (let n = 2; Object.hasOwn(taken, free); n++) free = `${base}#${n}`;
  return free;
}

const missing = (): Outcome => ({
  value: null,
  fault: { kind: "crashed", message: "no answer came for this sample", line: null },
  ms: 0,
});

export function summarize(results: readonly Scored[]): ScoreSummary {
  const rewards = results.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  const latencies = results.map(({ latency_ms }) => latency_ms).sort((a, b) => a - b);
  const faults: Record<string, number> = {};
  for (const { reward, error } of results) {
    if (reward !== null) continue;
    const kind = error?.kind ?? "none";
    faults[kind] = (faults[kind] ?? 0) + 1;
  }
  return {
    count: results.length,
    scored: rewards.length,
    ...spread(rewards),
    faults,
    latency_ms_p50: percentile(latencies, 0.5),
    latency_ms_p95: percentile(latencies, 0.95),
  };
}

/** `std` is that of these rewards, not an estimate for others: for one reward it is 0. */
function spread(rewards: readonly number[]): Pick<ScoreSummary, "mean" | "std" | "min" | "max"> {
  if (rewards.length === 0) return { mean: null, std: null, min: null, max: null };
  // A running mean: equal rewards give exactly that value, and no sum can overflow.
  const mean = rewards.reduce((before, reward, n) => before + (reward / (n + 1) - before / (n + 1)), 0);
  const variance = rewards.reduce((sum, reward) => sum + (reward - mean) ** 2 / rewards.length, 0);
  const std = Math.sqrt(variance);
  return {
    mean,
    std: Number.isFinite(std) ? std : null,
    min: rewards.reduce((a, b) => Math.min(a, b)),
    max: rewards.reduce((a, b) => Math.max(a, b)),
  };
}

/** Returns the smallest value that at least this share of them does not exceed. `sorted` ascends. */
export function percentile(sorted: readonly number[], share: number): number | null {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? null;
}
