/** The figures of an experiment, computed from its results alone. The same results give the same figures. */
import { bootstrapInterval, mean, quantile } from "../../lib/statistics/describe.ts";
import { mcnemar, pairedT, signFlip } from "../../lib/statistics/paired.ts";
import { takingTurns } from "../../lib/turns.ts";
import type { ExperimentSummary } from "./results_schema.ts";
import { baselineOf } from "./schema.ts";
import type { ExperimentRow, ItemRow, ScoreRow } from "./table.ts";

const SEED = 1;
const SIGNIFICANT = 0.05;
/** Above this many pairs the mean is normal, and a permutation test would block the server. */
const MAX_PERMUTED_PAIRS = 1_000;

export type ResultItem = Pick<
  ItemRow,
  "target" | "rowId" | "latencyMs" | "promptTokens" | "completionTokens" | "error" | "finishedAt"
>;
export type ResultScore = Pick<ScoreRow, "target" | "rowId" | "evaluator" | "score" | "passed">;
type Figures = ExperimentSummary["targets"][number];
type EvaluatorFigures = Figures["evaluators"][number];
type Comparison = NonNullable<EvaluatorFigures["comparison"]>;
/** Row → score. */
type Scores = Map<number, number>;

type Results = { items: readonly ResultItem[]; scores: readonly ResultScore[] };

/** Lets other work of the server in between two evaluators. */
export async function summarize(row: ExperimentRow, { items, scores }: Results): Promise<ExperimentSummary> {
  const turn = takingTurns();
  const cells = new Map<string, ResultScore[]>();
  for (const score of scores) {
    const key = `${score.target} ${score.evaluator}`;
    const cell = cells.get(key);
    if (cell) cell.push(score);
    else cells.set(key, [score]);
  }
  const cell = (target: number, evaluator: number) => cells.get(`${target} ${evaluator}`) ?? [];
  const targets: Figures[] = [];
  for (const [target, { name }] of row.targets.entries()) {
    const done = items.filter((item) => item.target === target && item.finishedAt !== null);
    const evaluators: EvaluatorFigures[] = [];
    for (const [evaluator, { label }] of row.evaluators.entries()) {
      await turn();
      const own = cell(target, evaluator);
      const other = target === row.baseline ? [] : cell(row.baseline, evaluator);
      evaluators.push({ evaluator: label, ...figuresOf(own), comparison: compare(scoresOf(own), scoresOf(other)) });
    }
    targets.push({ target: name, ...costOf(done), evaluators });
  }
  return {
    object: "experiment_summary",
    experiment_id: row.id,
    status: row.status,
    baseline: baselineOf(row),
    targets,
    winners: Object.fromEntries(row.evaluators.map(({ label }, i) => [label, winnerOf(targets, i, row.baseline)])),
  };
}

function costOf(items: readonly ResultItem[]): Omit<Figures, "target" | "evaluators"> {
  const latencies = items.flatMap(({ latencyMs }) => latencyMs ?? []).sort((a, b) => a - b);
  const sum = (of: (item: ResultItem) => number | null) => items.reduce((total, item) => total + (of(item) ?? 0), 0);
  return {
    items: items.length,
    errors: items.filter(({ error }) => error !== null).length,
    latency_ms_p50: latencies.length === 0 ? null : quantile(latencies, 0.5),
    latency_ms_p95: latencies.length === 0 ? null : quantile(latencies, 0.95),
    prompt_tokens: sum((item) => item.promptTokens),
    completion_tokens: sum((item) => item.completionTokens),
  };
}

function figuresOf(cell: readonly ResultScore[]) {
  const values = cell.flatMap(({ score }) => score ?? []);
  const judged = cell.filter(({ passed }) => passed !== null);
  const interval = bootstrapInterval(values, { seed: SEED });
  return {
    scored: values.length,
    unscored: cell.length - values.length,
    mean: values.length === 0 ? null : mean(values),
    ci_low: interval?.low ?? null,
    ci_high: interval?.high ?? null,
    pass_rate: judged.length === 0 ? null : judged.filter(({ passed }) => passed).length / judged.length,
  };
}

const scoresOf = (cell: readonly ResultScore[]): Scores =>
  new Map(cell.flatMap(({ rowId, score }) => (score === null ? [] : [[rowId, score] as const])));

type Pairs = { deltas: number[]; wins: number; losses: number };
const TESTS: Record<Comparison["test"], (pairs: Pairs) => { p: number }> = {
  mcnemar: ({ wins, losses }) => mcnemar({ gained: wins, lost: losses }),
  paired_t: ({ deltas }) => pairedT(deltas),
  sign_flip: ({ deltas }) => signFlip(deltas, { seed: SEED }),
};

/** Only rows that both have a score for. Null: there are none. */
export function compare(candidate: Scores, baseline: Scores): Comparison | null {
  const pairs = [...candidate].flatMap(([rowId, score]) => {
    const other = baseline.get(rowId);
    return other === undefined ? [] : [[score, other] as const];
  });
  if (pairs.length === 0) return null;
  const deltas = pairs.map(([score, other]) => score - other);
  const wins = deltas.filter((delta) => delta > 0).length;
  const losses = deltas.filter((delta) => delta < 0).length;
  const isBinary = pairs.every((pair) => pair.every((value) => value === 0 || value === 1));
  const test = isBinary ? "mcnemar" : pairs.length > MAX_PERMUTED_PAIRS ? "paired_t" : "sign_flip";
  const { p } = TESTS[test]({ deltas, wins, losses });
  const interval = bootstrapInterval(deltas, { seed: SEED });
  return {
    pairs: pairs.length,
    mean_difference: mean(deltas),
    ci_low: interval?.low ?? null,
    ci_high: interval?.high ?? null,
    test,
    p_value: p,
    significant: p < SIGNIFICANT,
    wins,
    losses,
    ties: pairs.length - wins - losses,
  };
}

/**
 * The target with the highest mean of those that are significantly better than the baseline. Otherwise the baseline, if
 * it is significantly better than every other target.
 */
function winnerOf(targets: readonly Figures[], evaluator: number, baseline: number): string | null {
  const others = targets
    .filter((_, i) => i !== baseline)
    .map(({ target, evaluators }) => ({ target, figures: evaluators[evaluator] }));
  const isBetter = (comparison: EvaluatorFigures["comparison"] | undefined, sign: 1 | -1) =>
    comparison?.significant === true && comparison.mean_difference * sign > 0;
  const better = others.filter(({ figures }) => isBetter(figures?.comparison, 1));
  const [best] = better.sort((a, b) => (b.figures?.mean ?? 0) - (a.figures?.mean ?? 0));
  if (best) return best.target;
  const isBeaten = others.length > 0 && others.every(({ figures }) => isBetter(figures?.comparison, -1));
  return isBeaten ? (targets[baseline]?.target ?? null) : null;
}
