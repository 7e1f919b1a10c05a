/** Runs of an eval: experiments with one target, and their items. */
import { and, eq, inArray, sql } from "drizzle-orm";
import type { Ctx, Principal } from "../../../context.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import type { Once } from "../../../http/idempotency.ts";
import { AppError } from "../../../lib/errors.ts";
import type { Db, Tx } from "../../../platform/db/db.ts";
import { write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { CreateExperiment } from "../../quality/experiments/schema.ts";
import * as experiments from "../../quality/experiments/service.ts";
import {
  type ExperimentRow,
  experimentItems,
  experimentScores,
  type ItemRow,
  experiments as table,
} from "../../quality/experiments/table.ts";
import { parsedAs } from "../call_model.ts";
import { presentItem, presentRun, type Result } from "./present.ts";
import { datasetOf, ITEM, OUTPUT } from "./rows.ts";
import type { CreateEvalRun, DataSource, EvalRun } from "./schema.ts";
import * as evals from "./service.ts";
import { type EvalRow, type EvalRunRow, evalRuns } from "./table.ts";

const insert = preparedInsert(evalRuns);
const byId = preparedRow(
  evalRuns,
  and(
    eq(evalRuns.id, sql.placeholder("id")),
    eq(evalRuns.evalId, sql.placeholder("evalId")),
    eq(evalRuns.workspaceId, sql.placeholder("workspaceId")),
  ),
);

type RunPath = { id: string; run: string };
type RunRecord = { parent: EvalRow; run: EvalRunRow; experiment: ExperimentRow };

export function mustGet(ctx: Ctx, workspaceId: string, { id, run: runId }: RunPath): RunRecord {
  const parent = evals.mustGet(ctx, workspaceId, id);
  const run = byId(ctx.db, { id: runId, evalId: id, workspaceId });
  if (!run) throw new AppError("resource_not_found", `No run ${runId.slice(0, 80)}`, { param: "run" });
  return { parent, run, experiment: experiments.mustGet(ctx, workspaceId, runId) };
}

const { experimentId, rowId, evaluator, passed } = experimentScores;

/** How many items each criterion passed, and how many items passed all of them. */
function resultsOf(db: Db | Tx, { parent, experiment }: Pick<RunRecord, "parent" | "experiment">): Result {
  const isOfExperiment = eq(experimentId, experiment.id);
  const byCriterion = db
    .select({ evaluator, passed: sql<number>`sum(${passed} IS TRUE)`, count: sql<number>`count(*)` })
    .from(experimentScores)
    .where(isOfExperiment)
    .groupBy(evaluator)
    .all();
  const whole = db
    .select({ rowId })
    .from(experimentScores)
    .where(isOfExperiment)
    .groupBy(rowId)
    .having(sql`sum(${passed} IS TRUE) = ${parent.evaluators.length}`)
    .all().length;
  const { itemsDone, itemsFailed } = experiment;
  return { byCriterion, passed: whole, errored: itemsFailed, failed: Math.max(0, itemsDone - itemsFailed - whole) };
}

export const show = (db: Db | Tx, record: RunRecord): EvalRun => presentRun(record, resultsOf(db, record));

export function list(ctx: Ctx, workspaceId: string, id: string, query: PageQuery) {
  const parent = evals.mustGet(ctx, workspaceId, id);
  return page(ctx.db, evalRuns, eq(evalRuns.evalId, id), query, (run) => {
    const experiment = ctx.db.select().from(table).where(eq(table.id, run.id)).get() as ExperimentRow; // of the same life
    return show(ctx.db, { parent, run, experiment });
  });
}

export function items(ctx: Ctx, { parent, run, experiment }: RunRecord, query: PageQuery) {
  const itemPage = page(ctx.db, experimentItems, eq(experimentItems.experimentId, run.id), query, (row) => row);
  return { ...itemPage, data: withScores(ctx, { parent, run, experiment }, itemPage.data) };
}

export function item(ctx: Ctx, record: RunRecord, id: string) {
  const row = experiments.mustGetItem(ctx, record.run.workspaceId, id);
  const [shown] = row.experimentId === record.run.id ? withScores(ctx, record, [row]) : [];
  if (shown) return shown;
  throw new AppError("resource_not_found", `No output item ${id.slice(0, 80)} of this run`, { param: "item" });
}

function withScores(ctx: Ctx, record: RunRecord, items: readonly ItemRow[]) {
  const rows = items.map((each) => each.rowId);
  const scores = Map.groupBy(
    ctx.db
      .select()
      .from(experimentScores)
      .where(and(eq(experimentId, record.run.id), inArray(rowId, rows)))
      .orderBy(evaluator)
      .all(),
    (score) => score.rowId,
  );
  return items.map((each) => presentItem(record, each, scores.get(each.rowId) ?? []));
}

const targetOf = (source: DataSource) =>
  source.type === "jsonl"
    ? ({ type: "outputs", field: OUTPUT } as const)
    : ({ type: "deployment", deployment: source.model } as const);

function paramsOf(source: DataSource): { temperature?: number } {
  if (source.type === "jsonl") return {};
  const { temperature, top_p, seed, max_completion_tokens, max_completions_tokens } = source.sampling_params ?? {};
  const max_tokens = max_completion_tokens ?? max_completions_tokens;
  return {
    ...(typeof temperature === "number" ? { temperature } : {}),
    ...(typeof top_p === "number" ? { top_p } : {}),
    ...(typeof seed === "number" ? { seed } : {}),
    ...(typeof max_tokens === "number" ? { max_tokens } : {}),
  };
}

/** The dataset of the experiment keeps the content. */
const stored = (source: DataSource): DataSource =>
  source.source.type === "file_id" ? source : { ...source, source: { type: "file_content", content: [] } };

/** An error of the experiment, in the fields of this format. */
function renamed(error: unknown): unknown {
  if (!(error instanceof AppError) || !error.param?.startsWith("/targets/")) return error;
  const message = error.message.replace(/^targets\.0\.deployment: /, "");
  return new AppError(error.code, `data_source.model: ${message}`, { param: "/data_source/model", cause: error });
}

type Caller = Principal & { signal: AbortSignal };
type Request = { parent: EvalRow; body: CreateEvalRun };

/** One commit inserts the experiment and the row of this format. */
export async function create(ctx: Ctx, caller: Caller, { parent, body }: Request, once?: Once): Promise<EvalRun> {
  const before = once && write(ctx.db, (tx) => once.before(tx));
  if (before) return before as EvalRun; // the answer that `keep` stored
  const { workspaceId } = caller;
  const source = body.data_source;
  const name = body.name ?? parent.name;
  const dataset = await datasetOf(ctx, caller, { name, source });
  let answer: EvalRun | undefined;
  const keep: Once["keep"] = (tx, experiment) => {
    const { id } = experiment as { id: string };
    const row = { id, workspaceId, evalId: parent.id, dataSource: stored(source), createdAt: ctx.clock.now() };
    const run = insert(tx, row);
    answer = show(tx, {
      parent,
      run,
      experiment: tx.select().from(table).where(eq(table.id, id)).get() as ExperimentRow,
    });
    once?.keep(tx, answer);
  };
  const request = parsedAs(CreateExperiment, {
    name,
    dataset: dataset.id,
    targets: [targetOf(source)],
    evaluators: parent.evaluators,
    reference_field: ITEM,
    params: paramsOf(source),
    metadata: { ...body.metadata },
  });
  await experiments.create(ctx, caller, request, { before: () => undefined, keep }).catch((error) => {
    throw renamed(error);
  });
  return answer as EvalRun; // `keep` has run
}
