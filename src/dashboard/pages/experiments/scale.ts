/** Places of means and intervals on one common axis. */
import type { ExperimentSummary } from "../../../resources/quality/experiments/results_schema.ts";

export type Figures = ExperimentSummary["targets"][number]["evaluators"][number];
export type Scale = { low: number; high: number };

/** Room for all means and intervals of one evaluator. Scores between 0 and 1 get the axis from 0 to 1. */
export function scaleOf(figures: readonly Figures[]): Scale {
  const values = figures
    .flatMap(({ mean, ci_low, ci_high }) => [mean, ci_low, ci_high])
    .filter((value) => value !== null);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (values.length === 0 || (low >= 0 && high <= 1)) return { low: 0, high: 1 };
  const room = (high - low || 1) * 0.05;
  return { low: low - room, high: high + room };
}

/** From 0 to 100. */
export const placeOf = ({ low, high }: Scale, value: number) => ((value - low) / (high - low || 1)) * 100;

/** "0.003", "less than 0.001" */
export const pValue = (p: number) => (p < 0.001 ? "less than 0.001" : p.toPrecision(p < 0.1 ? 1 : 2));
