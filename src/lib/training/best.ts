/**
 * The best held-out metric of a run, and when a run stops because it no longer improves. Rules are those of transformers
 * (`EarlyStoppingCallback`, `load_best_model_at_end`). Pure: the state is part of every checkpoint, so that a resumed run
 * decides the same.
 */
import { isRolled, type Method, type RolledMethod } from "./fields.ts";
import { DPO_METRICS, HEADLINE_METRIC, isLowerBetter, KTO_METRICS, ORPO_METRICS } from "./metrics.ts";

export type BestSettings = {
  early_stopping_patience: number | null;
  early_stopping_threshold: number;
  metric_for_best_model: string | null;
  greater_is_better: boolean | null;
  load_best_model_at_end: boolean;
};

/**
 * `value`: null while no evaluation gave a finite number. `waited`: evaluations in a row without enough improvement.
 * `stopped`: the reason why no step follows.
 */
export type BestState = { value: number | null; step: number; waited: number; stopped: string | null };

const PREFIX = "eval_";

/** Fills in the metric if a setting needs one: the method's headline metric on held-out rows. */
export function resolveBest(method: Method, settings: BestSettings): BestSettings {
  const isUsed = settings.early_stopping_patience !== null || settings.load_best_model_at_end;
  const name = settings.metric_for_best_model ?? (isUsed ? HEADLINE_METRIC[method] : null);
  if (name === null) return settings;
  const metric = name.startsWith(PREFIX) ? name : `${PREFIX}${name}`;
  const greater = settings.greater_is_better ?? !isLowerBetter(metric);
  return { ...settings, metric_for_best_model: metric, greater_is_better: greater };
}

const EVALUATED: Record<Exclude<Method, RolledMethod>, readonly string[]> = {
  sft: ["loss"],
  dpo: ["loss", ...DPO_METRICS],
  kto: ["loss", ...KTO_METRICS],
  orpo: ["loss", ...ORPO_METRICS],
};
const OF_REWARDS = /^(reward|reward_std|rewards\/.+\/(mean|std))$/;

/** Returns the problem of a metric that no evaluation of the method reports. */
export function metricFault(method: Method, metric: string): string | undefined {
  const name = metric.startsWith(PREFIX) ? metric.slice(PREFIX.length) : metric;
  if (method === "distill" && name === HEADLINE_METRIC.distill) return undefined;
  if (isRolled(method))
    return OF_REWARDS.test(name) ? undefined : "must be eval_reward or eval_rewards/NAME/mean of a reward function";
  const names = EVALUATED[method];
  return names.includes(name) ? undefined : `must be one of ${names.map((each) => PREFIX + each).join(", ")}`;
}

/** The state after an evaluation. `improved`: this step is the best so far. A value that is not finite never is. */
export function noteEvaluation(
  before: BestState | null,
  { step, value }: { step: number; value: number },
  settings: BestSettings,
): { state: BestState; improved: boolean } {
  const bestValue = before?.value ?? null;
  const gain =
    bestValue === null ? Number.POSITIVE_INFINITY : (value - bestValue) * (settings.greater_is_better ? 1 : -1);
  const improved = Number.isFinite(value) && gain > 0;
  const waited = improved && gain > settings.early_stopping_threshold ? 0 : (before?.waited ?? 0) + 1;
  const best = improved ? { value, step } : { value: bestValue, step: before?.step ?? step };
  const { early_stopping_patience: patience } = settings;
  const stopped = patience !== null && waited >= patience ? stopReason(best, waited, settings) : null;
  return { state: { ...best, waited, stopped }, improved };
}

function stopReason({ value, step }: Pick<BestState, "value" | "step">, waited: number, of: BestSettings): string {
  const evaluations = `${waited} ${waited === 1 ? "evaluation" : "evaluations"}`;
  const { metric_for_best_model: metric } = of;
  if (value === null) return `${metric} was not a finite number in ${evaluations}. Lower learning_rate`;
  return `${metric} did not improve in ${evaluations}. It was best after step ${step}: ${Number(value.toPrecision(6))}`;
}
