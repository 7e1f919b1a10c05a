/** The figures of an experiment, computed from its results alone. The same results give the same figures. */

import { takingTurns } from "../../../lib/turns.ts";
import { bootstrapInterval, mean, quantile } from "../statistics/describe.ts";
import { mcnemar, pairedT, signFlip } from "../statistics/paired.ts";
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

/** The scores of one evaluator for one target, in the order of the rows. */
export type Cell = { rowIds: number[]; scores: number[]; unscored: number; judged: number; passed: number };
/** By target and evaluator. */
export type Cells = Map<string, Cell>;

const NONE: Cell = { rowIds: [], scores: [], unscored: 0, judged: 0, passed: 0 };

/** Adds scores to their cells. An experiment may have a million: they are kept as two lists of numbers. */
export function addScores(cells: Cells, scores: readonly ResultScore[]): Cells {
  for (const { target, evaluator, rowId, score, passed } of scores) {
    const key = `${target} ${evaluator}`;
    const cell = cells.get(key) ?? { ...NONE, rowIds: [], scores: [] };
    cells.set(key, cell);
    if (score === null) cell.unscored++;
    else {
      cell.rowIds.push(rowId);
      cell.scores.push(score);
    }
    if (passed !== null) cell.judged++;
    if (passed === true) cell.passed++;
  }
  return cells;
}

type Results = { items: readonly ResultItem[]; cells: Cells };

/** Lets other work of the server in between two evaluators. */
export async function summarize(row: ExperimentRow, { items, cells }: Results): Promise<ExperimentSummary> {
  const turn = takingTurns();
  const cell = (target: number, evaluator: number) => cells.get(`${target} ${evaluator}`) ?? NONE;
  const itemsOf = Map.groupBy(items, (item) => item.target);
  const targets: Figures[] = [];
  for (const [target, { name }] of row.targets.entries()) {
    await turn();
    const done = itemsOf.get(target)?.filter((item) => item.finishedAt !== null) ?? [];
    const evaluators: EvaluatorFigures[] = [];
    for (const [evaluator, { label }] of row.evaluators.entries()) {
      await turn();
      const scores = cell(target, evaluator);
      const other = target === row.baseline ? NONE : cell(row.baseline, evaluator);
      evaluators.push({ evaluator: label, ...(await figuresOf(scores)), comparison: await compare(scores, other) });
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
  const latencies = Float64Array.from(items.flatMap(({ latencyMs }) => latencyMs ?? [])).sort();
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

async function figuresOf({ scores, unscored, judged, passed }: Cell) {
  const interval = await bootstrapInterval(scores, { seed: SEED });
  return {
    scored: scores.length,
    unscored,
    mean: scores.length === 0 ? null : mean(scores),
    ci_low: interval?.low ?? null,
    ci_high: interval?.high ?? null,
    pass_rate: judged === 0 ? null : passed / judged,
  };
}

type Pairs = { deltas: number[]; wins: number; losses: number };
const TESTS: Record<Comparison["test"], (pairs: Pairs) => { p: number } | Promise<{ p: number }>> = {
  mcnemar: ({ wins, losses }) => mcnemar({ gained: wins, lost: losses }),
  paired_t: ({ deltas }) => pairedT(deltas),
  sign_flip: ({ deltas }) => signFlip(deltas, { seed: SEED }),
};

/** Only rows that both have a score for. Null: there are none. */
export async function compare(candidate: Cell, baseline: Cell): Promise<Comparison | null> {
  const deltas: number[] = [];
  let isBinary = true;
  for (let i = 0, j = 0; i < candidate.rowIds.length; i++) {
    while (baseline.rowIds[j]! < candidate.rowIds[i]!) j++;
    if (baseline.rowIds[j] !== candidate.rowIds[i]) continue;
    const [score, other] = [candidate.scores[i]!, baseline.scores[j]!];
    isBinary &&= (score === 0 || score === 1) && (other === 0 || other === 1);
    deltas.push(score - other);
  }
  if (deltas.length === 0) return null;
  const wins = deltas.filter((delta) => delta > 0).length;
  const losses = deltas.filter((delta) => delta < 0).length;
  const test = isBinary ? "mcnemar" : deltas.length > MAX_PERMUTED_PAIRS ? "paired_t" : "sign_flip";
  const { p } = await TESTS[test]({ deltas, wins, losses });
  const interval = await bootstrapInterval(deltas, { seed: SEED });
  return {
    pairs: deltas.length,
    mean_difference: mean(deltas),
    ci_low: interval?.low ?? null,
    ci_high: interval?.high ?? null,
    test,
    p_value: p,
    significant: p < SIGNIFICANT,
    wins,
    losses,
    ties: deltas.length - wins - losses,
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
