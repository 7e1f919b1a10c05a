/** One row for one target: the answer, its scores, and their record. */
import { and, eq, isNull, sql } from "drizzle-orm";
import { ZodError } from "zod";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { preparedInsert } from "../../../platform/db/row.ts";
import { StorageError } from "../../../platform/files.ts";
import type { EvaluationItem, EvaluationResult } from "../../evaluators/item.ts";
import { afterFault } from "../policy.ts";
import { baselineItems } from "../results.ts";
import { messagesOf, plainInput, textOf } from "../sample.ts";
import {
  type EvaluatorRef,
  type ExperimentRow,
  experimentItems,
  experimentScores,
  experiments,
  type ItemRow,
  type Target,
} from "../table.ts";
import type { QuestionRow } from "./rows.ts";

const insertItem = preparedInsert(experimentItems);
const insertScore = preparedInsert(experimentScores);

/** No row of this target can be answered. The experiment fails with `fault`. */
export class TargetFailed extends Error {
  constructor(
    readonly target: string,
    readonly fault: AppError,
  ) {
    super(fault.message, { cause: fault });
  }
}

export type Work = {
  ctx: Ctx;
  row: ExperimentRow;
  index: number;
  target: Target;
  /** Null: the outputs are recorded in the rows. */
  deploymentId: string | null;
  signal: AbortSignal;
};

/** Answers and scores some rows. Each item is recorded in a commit of its own. */
export async function runItems(work: Work, questions: readonly QuestionRow[]): Promise<void> {
  const answered: { item: ItemRow; question: QuestionRow; output: string }[] = [];
  for (const question of questions) {
    const item = unfinished(work, question) ?? (await answer(work, question));
    if (item?.output != null) answered.push({ item, question, output: item.output });
  }
  if (answered.length === 0) return;
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
  for (const [i, { item }] of answered.entries())
    finish(
      work,
      item,
      results.map((each) => each[i] ?? failed(NO_RESULT)),
    );
}

/** An item that was generated before a kill and has no scores yet. */
function unfinished({ ctx, row, index }: Work, { rowId }: QuestionRow): ItemRow | undefined {
  const { experimentId, target } = experimentItems;
  const own = and(eq(experimentId, row.id), eq(target, index), eq(experimentItems.rowId, rowId));
  return ctx.db.select().from(experimentItems).where(own).get();
}

type Answer = Pick<ItemRow, "output" | "latencyMs" | "promptTokens" | "completionTokens" | "requestId">;

/** Undefined: the item has ended with an error, or the experiment has ended. */
async function answer(work: Work, question: QuestionRow): Promise<ItemRow | undefined> {
  let given: Answer;
  try {
    given = work.deploymentId === null ? recorded(work.target, question) : await generated(work, question);
  } catch (error) {
    work.signal.throwIfAborted();
    if (error instanceof TargetFailed || isServerFault(error)) throw error;
    recordFault(work, question, faultOf(work, question, error));
    return undefined;
  }
  return record(work, question, given);
}

/** The disk of the server is full or broken. */
const isServerFault = (error: unknown) => error instanceof StorageError || afterFault(error, 1).kind === "server";

function faultOf({ ctx, row }: Work, { rowId }: QuestionRow, error: unknown): AppError {
  if (error instanceof AppError) return error;
  if (error instanceof ZodError) {
    const [issue] = error.issues;
    return new AppError("schema", `The row is no valid request: ${issue?.path.join(".")}: ${issue?.message}`);
  }
  ctx.log.error("an item of an experiment failed", { experiment: row.id, row: rowId, error });
  return new AppError("internal", "Unexpected server error");
}

function recorded({ field }: Target, { row }: QuestionRow): Answer {
  const output = textOf(row[field ?? ""]);
  if (output === null) throw new AppError("schema", `The row has no text in ${JSON.stringify(field)}`);
  return { output, latencyMs: null, promptTokens: null, completionTokens: null, requestId: null };
}

async function generated(work: Work, { input }: QuestionRow): Promise<Answer> {
  const { ctx, row, deploymentId, signal, target } = work;
  const { generate } = ctx.state.experiments.ports;
  const request = {
    workspaceId: row.workspaceId,
    deploymentId: deploymentId ?? "",
    messages: messagesOf(input, row.systemPrompt) as never, // checked by the deployment, as a client's messages are
    params: row.params,
    signal,
    background: true,
    keyId: row.apiKeyId,
  };
  const done = await retrying(work, () => generate(ctx, request), target.name);
  const { text: output, latencyMs, promptTokens, completionTokens, requestId } = done;
  return { output, latencyMs, promptTokens, completionTokens, requestId };
}

/** Repeats a call that fails for a reason that passes. */
async function retrying<T>({ ctx, signal }: Work, call: () => Promise<T>, target: string): Promise<T> {
  for (let attempts = 1; ; attempts++) {
    try {
      return await call();
    } catch (error) {
      signal.throwIfAborted();
      const next = afterFault(error, attempts);
      if (next.kind === "experiment") throw new TargetFailed(target, error as AppError);
      if (next.kind !== "retry") throw error;
      await ctx.clock.sleep(next.pauseMs, signal);
      signal.throwIfAborted();
    }
  }
}

const NO_RESULT = "The evaluator returned no result for this item";
const failed = (error: string): EvaluationResult => ({
  ...{ score: null, label: null, passed: null, reason: null, latencyMs: 0 },
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

function record(work: Work, question: QuestionRow, given: Answer): ItemRow | undefined {
  return write(work.ctx.db, (tx) => (isRunning(tx, work) ? insertItem(tx, itemOf(work, question, given)) : undefined));
}

const NO_ANSWER: Answer = {
  ...{ output: null, latencyMs: null, promptTokens: null, completionTokens: null },
  requestId: null,
};

function recordFault(work: Work, question: QuestionRow, { code, message }: AppError) {
  write(work.ctx.db, (tx) => {
    if (!isRunning(tx, work)) return;
    const ended = { error: message, errorCode: code, finishedAt: work.ctx.clock.now() };
    insertItem(tx, { ...itemOf(work, question, NO_ANSWER), ...ended });
    countItem(work, tx, 1);
  });
}

function itemOf({ ctx, row, index }: Work, { rowId, input, reference }: QuestionRow, given: Answer): ItemRow {
  const createdAt = ctx.clock.now();
  const own = { id: newId("expi", createdAt), experimentId: row.id, target: index, rowId, input, reference, createdAt };
  return { ...own, ...given, error: null, errorCode: null, finishedAt: null };
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

/** A cancelled experiment takes no further results. */
const isRunning = (tx: Tx, { row }: Work): boolean =>
  tx.select({ status: experiments.status }).from(experiments).where(eq(experiments.id, row.id)).get()?.status ===
  "running";

function countItem({ ctx, row }: Work, tx: Tx, failed: 0 | 1) {
  const { itemsDone, itemsFailed } = experiments;
  tx.update(experiments)
    .set({
      itemsDone: sql`${itemsDone} + 1`,
      itemsFailed: sql`${itemsFailed} + ${failed}`,
      updatedAt: ctx.clock.now(),
    })
    .where(eq(experiments.id, row.id))
    .run();
}
