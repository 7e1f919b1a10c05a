/** The result of an experiment for people: targets side by side, with margins of error. */
import type { ExperimentItem, ExperimentSummary } from "../../resources/quality/experiments/results_schema.ts";
import { cutTo } from "../text/table.ts";

type Target = ExperimentSummary["targets"][number];
type Figures = Target["evaluators"][number];
export type Table = { header: string[]; rows: string[][] };

const number = (value: number) => value.toFixed(3);
const signed = (value: number) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
const probability = (p: number) => (p < 0.0001 ? "p < 0.0001" : `p = ${p.toFixed(4)}`);

/** `0.810 ± 0.080`: the mean and half of its 95 % interval. */
function meanOf({ mean, ci_low: low, ci_high: high }: Figures): string {
  if (mean === null) return "no score";
  return low === null || high === null ? number(mean) : `${number(mean)} ± ${number((high - low) / 2)}`;
}

/** `+0.390, p = 0.0004 *`: the difference to the baseline. The star marks p < 0.05. */
function differenceOf({ comparison }: Figures): string {
  if (comparison === null) return "";
  return `${signed(comparison.mean_difference)}, ${probability(comparison.p_value)}${comparison.significant ? " *" : ""}`;
}

/** One row for each evaluator, then errors, latency and tokens. Each target after the baseline has two columns. */
export function comparisonTable({ targets, baseline }: ExperimentSummary): Table {
  const ordered = [...targets].sort((a, b) => Number(b.target === baseline) - Number(a.target === baseline));
  const names = ordered[0]?.evaluators.map(({ evaluator }) => evaluator) ?? [];
  const isBaseline = (each: Target) => each.target === baseline;
  const cells = (cell: (each: Target) => string, second: (each: Target) => string = () => "") =>
    ordered.flatMap((each) => (isBaseline(each) ? [cell(each)] : [cell(each), second(each)]));
  const figures = (each: Target, name: string) => each.evaluators.find(({ evaluator }) => evaluator === name);
  const scores = names.map((name) => [
    name,
    ...cells(
      (each) => textOf(figures(each, name), meanOf),
      (each) => textOf(figures(each, name), differenceOf),
    ),
  ]);
  return {
    header: [
      "EVALUATOR",
      ...cells(
        ({ target }) => target,
        () => `vs ${baseline}`,
      ),
    ],
    rows: [
      ...scores,
      ["errors", ...cells(({ errors, items }) => `${errors} of ${items}`)],
      ["latency p50", ...cells(({ latency_ms_p50: ms }) => (ms === null ? "recorded" : `${Math.round(ms)} ms`))],
      ["tokens", ...cells(({ completion_tokens: tokens }) => String(tokens))],
    ],
  };
}

const textOf = (figures: Figures | undefined, text: (figures: Figures) => string) => (figures ? text(figures) : "");

/** One sentence for each evaluator, and the order of the targets if they are more than two. */
export function verdicts(summary: ExperimentSummary): string[] {
  const { winners, targets } = summary;
  if (targets.length < 2) return [];
  return Object.entries(winners).flatMap(([evaluator, winner]) => [
    ...(targets.length > 2 ? [`${evaluator}, best first: ${rankingOf(targets, evaluator)}.`] : []),
    `${evaluator}: ${verdictOf(summary, winner)}.`,
  ]);
}

function verdictOf({ baseline }: ExperimentSummary, winner: string | null): string {
  if (winner === null) return "no significant difference (p ≥ 0.05)";
  return winner === baseline ? `${winner} is better than the other targets` : `${winner} is better than ${baseline}`;
}

/** `tuned (0.810), base (0.420)`. Targets without a score are left out. */
function rankingOf(targets: readonly Target[], evaluator: string): string {
  const scored = targets.flatMap(({ target, evaluators }) => {
    const mean = evaluators.find((each) => each.evaluator === evaluator)?.mean ?? null;
    return mean === null ? [] : [{ target, mean }];
  });
  return scored
    .sort((a, b) => b.mean - a.mean)
    .map(({ target, mean }) => `${target} (${number(mean)})`)
    .join(", ");
}

const MAX_TEXT = 60;
const oneLine = (text: string | null) => cutTo((text ?? "").replaceAll(/\s+/g, " "), MAX_TEXT);

export function regressionTable(items: readonly ExperimentItem[]): Table {
  const rows = items.flatMap((item) =>
    Object.entries(item.scores)
      .filter(([, { regression }]) => regression)
      .map(([evaluator, { score, baseline_score: before }]) => [
        String(item.row_id),
        item.target,
        evaluator,
        `${number(before ?? 0)} → ${number(score ?? 0)}`,
        oneLine(item.baseline_output),
        oneLine(item.output),
      ]),
  );
  return { header: ["ROW", "TARGET", "EVALUATOR", "SCORE", "BASELINE ANSWER", "ANSWER"], rows };
}
