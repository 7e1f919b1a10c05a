/** One row for one target: the answer and its record. */

import { and, eq, sql } from "drizzle-orm";
import { ZodError } from "zod";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { newId } from "../../../../lib/ids.ts";
import { issueText } from "../../../../lib/text/issue.ts";
import type { Turn } from "../../../../lib/turns.ts";
import { type Tx, write } from "../../../../platform/db/db.ts";
import { preparedInsert } from "../../../../platform/db/row.ts";
import { StorageError } from "../../../../platform/files.ts";
import { afterFault } from "../policy.ts";
import { messagesOf, textOf } from "../sample.ts";
import { type ExperimentRow, experimentItems, experiments, type ItemRow, type Target } from "../table.ts";
import type { QuestionRow } from "./rows.ts";

const insertItem = preparedInsert(experimentItems);

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
  /** Awaited between two items: recorded outputs and string checks wait for nothing else. */
  turn: Turn;
};

export type Answered = { item: ItemRow; question: QuestionRow; output: string };

/** Undefined: the item has ended with an error, or the experiment has ended. */
export async function answerRow(work: Work, question: QuestionRow): Promise<Answered | undefined> {
  const item = unfinished(work, question) ?? (await answer(work, question));
  return item?.output == null ? undefined : { item, question, output: item.output };
}

/** An item that was generated before a kill and has no scores yet. */
function unfinished({ ctx, row, index }: Work, { rowId }: QuestionRow): ItemRow | undefined {
  const { experimentId, target } = experimentItems;
  const isItem = and(eq(experimentId, row.id), eq(target, index), eq(experimentItems.rowId, rowId));
  return ctx.db.select().from(experimentItems).where(isItem).get();
}

type Answer = Pick<ItemRow, "output" | "latencyMs" | "promptTokens" | "completionTokens" | "requestId" | "traceId">;

async function answer(work: Work, question: QuestionRow): Promise<ItemRow | undefined> {
  let answered: Answer;
  try {
    answered = work.deploymentId === null ? recorded(work.target, question) : await generated(work, question);
  } catch (error) {
    work.signal.throwIfAborted();
    if (error instanceof TargetFailed || isServerFault(error)) throw error;
    recordFault(work, question, faultOf(work, question, error));
    return undefined;
  }
  return record(work, question, answered);
}

/** The disk of the server is full or broken. */
export const isServerFault = (error: unknown) =>
  error instanceof StorageError || afterFault(error, 1).kind === "server";

function faultOf({ ctx, row }: Work, { rowId }: QuestionRow, error: unknown): AppError {
  if (error instanceof AppError) return error;
  if (error instanceof ZodError) {
    const [issue] = error.issues;
    return new AppError("schema", `The row is no valid request: ${issue?.path.join(".")}: ${issueText(issue)}`);
  }
  ctx.log.error("an item of an experiment failed", { experiment: row.id, row: rowId, error });
  return new AppError("internal", "Unexpected server error");
}

function recorded({ field }: Target, { row }: QuestionRow): Answer {
  const output = textOf(row[field ?? ""]);
  if (output === null) throw new AppError("schema", `The row has no text in ${JSON.stringify(field)}`);
  return { output, latencyMs: null, promptTokens: null, completionTokens: null, requestId: null, traceId: null };
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
  const { text: output, latencyMs, promptTokens, completionTokens, requestId, traceId } = done;
  return { output, latencyMs, promptTokens, completionTokens, requestId, traceId };
}

/** Repeats a call that fails for a reason that passes. */
export async function retrying<T>({ ctx, signal }: Work, call: () => Promise<T>, target: string): Promise<T> {
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

function record(work: Work, question: QuestionRow, answered: Answer): ItemRow | undefined {
  return write(work.ctx.db, (tx) =>
    isRunning(tx, work) ? insertItem(tx, itemOf(work, question, answered)) : undefined,
  );
}

const NO_ANSWER: Answer = {
  output: null,
  latencyMs: null,
  promptTokens: null,
  completionTokens: null,
  requestId: null,
  traceId: null,
};

function recordFault(work: Work, question: QuestionRow, { code, message }: AppError) {
  write(work.ctx.db, (tx) => {
    if (!isRunning(tx, work)) return;
    const ended = { error: message, errorCode: code, finishedAt: work.ctx.clock.now() };
    insertItem(tx, { ...itemOf(work, question, NO_ANSWER), ...ended });
    countItem(work, tx, 1);
  });
}

function itemOf({ ctx, row, index }: Work, { rowId, input, reference }: QuestionRow, answered: Answer): ItemRow {
  const createdAt = ctx.clock.now();
  const identity = {
    id: newId("expi", createdAt),
    experimentId: row.id,
    target: index,
    rowId,
    input,
    reference,
    createdAt,
  };
  return { ...identity, ...answered, error: null, errorCode: null, finishedAt: null };
}

/** A cancelled experiment takes no further results. */
export const isRunning = (tx: Tx, { row }: Work): boolean =>
  tx.select({ status: experiments.status }).from(experiments).where(eq(experiments.id, row.id)).get()?.status ===
  "running";

export function countItem({ ctx, row }: Work, tx: Tx, failed: 0 | 1) {
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
