/** Means and intervals of one evaluator as a chart. */
import type { ExperimentSummary } from "../../../resources/quality/experiments/results_schema.ts";
import { NONE, number } from "../../data/format.ts";
import type { Content } from "../../kit/chart/series.ts";

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

type Row = { target: string; figures: Figures };

/** A point for the mean of each target, with a stroke for its 95 % interval. The baseline has its own colour. */
export function chartOf(evaluator: string, rows: readonly Row[], baseline: string): Content {
  const { low, high } = scaleOf(rows.map(({ figures }) => figures));
  const seriesOf = (label: string, token: string, isShown: (target: string) => boolean) => {
    const column = (name: "mean" | "ci_low" | "ci_high") =>
      rows.map(({ target, figures }) => (isShown(target) ? figures[name] : null));
    return {
      label,
      token,
      dots: true,
      values: column("mean"),
      band: { low: column("ci_low"), high: column("ci_high") },
    };
  };
  return {
    label: `Scores by ${evaluator}`,
    kind: "name",
    x: rows.map((_, i) => i),
    names: rows.map(({ target }) => target),
    xLabel: "target",
    yLabel: "mean, 95 % interval",
    yRange: [low, high],
    series: [
      seriesOf("Baseline", "--c5", (target) => target === baseline),
      seriesOf("Compared with it", "--c1", (target) => target !== baseline),
    ].filter(({ values }) => values.some((value) => value !== null)),
  };
}

/** "0.21 to 0.87" */
export const intervalText = ({ ci_low: low, ci_high: high }: Figures): string =>
  low === null || high === null ? NONE : `${number(low)} to ${number(high)}`;

/** "0.003", "less than 0.001" */
export const pValue = (p: number) => (p < 0.001 ? "less than 0.001" : p.toPrecision(p < 0.1 ? 1 : 2));
