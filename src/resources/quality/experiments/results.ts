/** Reads the results of an experiment: its items and the summary. */
import { and, eq, gt, inArray, lte, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { takingTurns } from "../../../lib/turns.ts";
import type { AnnotationLink } from "../annotation_queues/schema.ts";
import { type ExperimentSummary, presentItem } from "./results_schema.ts";
import { addScores, type Cells, type ResultItem, type ResultScore, summarize } from "./summary.ts";
import { type ExperimentRow, experimentItems, experimentScores, type ItemRow, type ScoreRow } from "./table.ts";

type ItemsQuery = PageQuery & { target?: string | undefined; regression?: boolean | undefined };

/** `annotationsOf`: items of annotation queues that hold the answer of an item. */
type AnnotationsOf = (itemId: string) => AnnotationLink[];

export function items(ctx: Ctx, experiment: ExperimentRow, asked: ItemsQuery, annotationsOf: AnnotationsOf) {
  const { target, regression, ...query } = asked;
  const within = and(
    eq(experimentItems.experimentId, experiment.id),
    target === undefined ? undefined : eq(experimentItems.target, indexOf(experiment, target)),
    regression === undefined
      ? undefined
      : regression
        ? hasRegression(experiment)
        : sql`NOT ${hasRegression(experiment)}`,
  );
  const itemPage = page(ctx.db, experimentItems, within, query, (row) => row);
  const rowIds = [...new Set(itemPage.data.map(({ rowId }) => rowId))];
  const scores = scoresOf(ctx, experiment, rowIds);
  const baselines = baselineItems(ctx, experiment, rowIds);
  const view = (item: ItemRow) => {
    const other = item.target === experiment.baseline ? undefined : baselines.get(item.rowId);
    return presentItem(experiment, {
      item,
      annotations: annotationsOf(item.id),
      scores: scores.get(`${item.target} ${item.rowId}`) ?? [],
      baseline: other && { output: other.output, scores: scores.get(`${experiment.baseline} ${item.rowId}`) ?? [] },
    });
  };
  return { ...itemPage, data: itemPage.data.map(view) };
}

function indexOf({ targets }: ExperimentRow, name: string): number {
  const index = targets.findIndex((target) => target.name === name);
  if (index >= 0) return index;
  const names = targets.map((target) => target.name).join(", ");
  throw new AppError("invalid_request", `target: no target is named ${name.slice(0, 100)}. The targets are ${names}`, {
    param: "target",
  });
}

/** The same rule as `isRegression` of policy.ts, for the rows of a query. */
const hasRegression = ({ baseline }: ExperimentRow) => sql`EXISTS (
  SELECT 1 FROM experiment_scores s JOIN experiment_scores b
    ON b.experiment_id = s.experiment_id AND b.target = ${baseline} AND b.row_id = s.row_id AND b.evaluator = s.evaluator
  WHERE s.experiment_id = ${experimentItems.experimentId} AND s.target = ${experimentItems.target}
    AND s.row_id = ${experimentItems.rowId} AND s.score < b.score)`;

/** By target and row. */
function scoresOf(ctx: Ctx, { id }: ExperimentRow, rowIds: number[]): Map<string, ScoreRow[]> {
  const { experimentId, rowId, evaluator } = experimentScores;
  const rows = ctx.db
    .select()
    .from(experimentScores)
    .where(and(eq(experimentId, id), inArray(rowId, rowIds)))
    .orderBy(evaluator)
    .all();
  return Map.groupBy(rows, (row) => `${row.target} ${row.rowId}`);
}

/** The items of the baseline for these rows, by row. */
export function baselineItems(ctx: Ctx, experiment: ExperimentRow, rowIds: number[]): Map<number, ItemRow> {
  const { experimentId, target, rowId } = experimentItems;
  const rows = ctx.db
    .select()
    .from(experimentItems)
    .where(and(eq(experimentId, experiment.id), eq(target, experiment.baseline), inArray(rowId, rowIds)))
    .all();
  return new Map(rows.map((row) => [row.rowId, row]));
}

/** Rows that are read at once, so that other requests get their turn. */
const SUMMARY_ROWS = 250; // with up to 16 scores each

export async function summary(ctx: Ctx, experiment: ExperimentRow): Promise<ExperimentSummary> {
  const turn = takingTurns();
  const items: ResultItem[] = [];
  const cells: Cells = new Map();
  for (const index of experiment.targets.keys()) {
    for (let after = -1; ; ) {
      await turn();
      const page = itemsAfter(ctx, experiment, { index, after });
      const last = page.at(-1);
      if (!last) break;
      items.push(...page);
      addScores(cells, scoresBetween(ctx, experiment, { index, after, last: last.rowId }));
      after = last.rowId;
    }
  }
  return await summarize(experiment, { items, cells });
}

function itemsAfter(ctx: Ctx, { id }: ExperimentRow, { index, after }: { index: number; after: number }) {
  const { experimentId, target, rowId, latencyMs, promptTokens, completionTokens, error, finishedAt } = experimentItems;
  return ctx.db
    .select({ target, rowId, latencyMs, promptTokens, completionTokens, error, finishedAt })
    .from(experimentItems)
    .where(and(eq(experimentId, id), eq(target, index), gt(rowId, after)))
    .orderBy(rowId)
    .limit(SUMMARY_ROWS)
    .all();
}

type Span = { index: number; after: number; last: number };

function scoresBetween(ctx: Ctx, { id }: ExperimentRow, { index, after, last }: Span): ResultScore[] {
  const { experimentId, target, rowId, evaluator, score, passed } = experimentScores;
  return ctx.db
    .select({ target, rowId, evaluator, score, passed })
    .from(experimentScores)
    .where(and(eq(experimentId, id), eq(target, index), gt(rowId, after), lte(rowId, last)))
    .orderBy(rowId)
    .all();
}
