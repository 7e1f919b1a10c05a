/** Scores of answered items, and the end of each item. */
import { and, eq, isNull } from "drizzle-orm";
import { AppError } from "../../../../lib/errors.ts";
import { write } from "../../../../platform/db/db.ts";
import { preparedInsert } from "../../../../platform/db/row.ts";
import type { EvaluationItem, EvaluationResult } from "../../evaluators/item.ts";
import { baselineItems } from "../results.ts";
import { plainInput } from "../sample.ts";
import { type EvaluatorRef, experimentItems, experimentScores, type ItemRow } from "../table.ts";
import { type Answered, countItem, isRunning, isServerFault, retrying, type Work } from "./item.ts";

const insertScore = preparedInsert(experimentScores);

/** Scores some items together. Each is recorded in a commit of its own. */
export async function scoreItems(work: Work, answered: readonly Answered[]): Promise<void> {
  const others = baselineItems(
    work.ctx,
    work.row,
    answered.map(({ item }) => item.rowId),
  );
  const inputs = answered.map(({ item, question, output }): EvaluationItem => {
    const other = work.index === work.row.baseline ? null : (others.get(item.rowId)?.output ?? null);
    return { input: plainInput(question.input), output, reference: question.reference, row: question.row, other };
  });
  const results = await Promise.all(work.row.evaluators.map((_, evaluator) => score(work, evaluator, inputs)));
  work.signal.throwIfAborted();
  for (const [i, { item }] of answered.entries()) {
    await work.turn();
    finish(
      work,
      item,
      results.map((each) => each[i] ?? failed(NO_RESULT)),
    );
  }
}

const NO_RESULT = "The evaluator returned no result for this item";
const failed = (error: string): EvaluationResult => ({
  score: null,
  label: null,
  passed: null,
  reason: null,
  latencyMs: 0,
  error,
});

/** The baseline against itself. */
const TIE: EvaluationResult = { ...failed(""), score: 0.5, label: "tie", error: null };
const NO_BASELINE = "The baseline has no answer to this row";

/** An evaluator that fails gives no score, and its error is part of the result. */
async function score(work: Work, index: number, items: EvaluationItem[]): Promise<EvaluationResult[]> {
  const { row } = work;
  const evaluator = row.evaluators[index];
  if (!evaluator) return [];
  if (!evaluator.pairwise) return evaluated(work, evaluator, items);
  if (work.index === row.baseline) return items.map(() => TIE);
  const comparable = items.filter(({ other }) => other != null);
  const results = comparable.length === 0 ? [] : await evaluated(work, evaluator, comparable);
  return items.map((item) => (item.other == null ? failed(NO_BASELINE) : (results.shift() ?? failed(NO_RESULT))));
}

async function evaluated(work: Work, evaluator: EvaluatorRef, items: EvaluationItem[]): Promise<EvaluationResult[]> {
  const { ctx, row, signal } = work;
  const { evaluate } = ctx.state.experiments.ports;
  try {
    return await retrying(work, () => evaluate(ctx, row.workspaceId, evaluator, items, signal), evaluator.label);
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof AppError) || isServerFault(error)) throw error;
    return items.map(() => failed(error.message));
  }
}

/** Scores, the end of the item and the progress are one commit. An item whose commit was lost stays due. */
function finish(work: Work, { id, rowId }: ItemRow, results: readonly EvaluationResult[]) {
  const { row, index: target, ctx } = work;
  write(ctx.db, (tx) => {
    if (!isRunning(tx, work)) return;
    const { id: key, finishedAt } = experimentItems;
    const due = and(eq(key, id), isNull(finishedAt));
    const ended = tx.update(experimentItems).set({ finishedAt: ctx.clock.now() }).where(due).returning({ key }).get();
    if (!ended) return;
    for (const [evaluator, { score, passed, ...result }] of results.entries()) {
      const figure = score ?? (passed === null ? null : Number(passed));
      insertScore(tx, { ...result, experimentId: row.id, target, rowId, evaluator, score: figure, passed });
    }
    countItem(work, tx, 0);
  });
}
