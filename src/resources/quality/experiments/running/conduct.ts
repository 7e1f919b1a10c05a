/** One experiment from its first due item to its end: target by target, page by page of rows. */
import { and, count, eq, inArray, isNotNull } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { transition } from "../../../../events/lifecycle.ts";
import { AppError } from "../../../../lib/errors.ts";
import { nextTurn, type Turn, takingTurns } from "../../../../lib/turns.ts";
import { durable, watchWrites, write } from "../../../../platform/db/db.ts";
import { machine } from "../machine.ts";
import { afterFault, dueRows, failureOf, targetOrder } from "../policy.ts";
import { current, end, releaseTarget } from "../service.ts";
import { type ExperimentRow, experimentItems } from "../table.ts";
import { TargetFailed } from "./item.ts";
import { openTarget } from "./open_target.ts";
import { runPage } from "./page.ts";
import { type QuestionRow, readRows } from "./rows.ts";

/** Returns when the experiment has ended, or when `signal` aborts. Faults of the server are thrown. */
export async function conduct(ctx: Ctx, id: string, signal: AbortSignal): Promise<void> {
  const settled = watchWrites(ctx.db);
  const turn = takingTurns();
  try {
    await durable(ctx.db); // the request that made the experiment waits for the same flush, and is answered first
    await nextTurn();
    const begun = write(ctx.db, (tx) => {
      const now = ctx.clock.now();
      return transition(tx, machine, "begin", { id, now }, { startedAt: now });
    });
    const row = begun ?? current(ctx, id);
    if (!row) return;
    for (const target of targetOrder(row.targets.length, row.baseline)) {
      await runTarget({ ctx, row, signal, turn }, target);
      signal.throwIfAborted();
      await settled(); // a commit that was lost took results with it: they are due again, and need the deployment
      releaseTarget(ctx, current(ctx, id) ?? row, target);
    }
    const failure = failureOf(countsOf(ctx, row));
    if (failure === undefined) end(ctx, id, { action: "complete" });
    else end(ctx, id, { action: "fail", error: { code: "all_items_failed", message: failure } });
  } catch (error) {
    if (signal.aborted) return;
    const fault = failureFor(error);
    if (!fault) throw error;
    end(ctx, id, { action: "fail", error: fault });
  }
}

/** Undefined: a fault of the server, after which the experiment goes on. */
function failureFor(error: unknown): { code: string; message: string } | undefined {
  if (error instanceof TargetFailed)
    return { code: error.fault.code, message: `${error.target}: ${error.fault.message}` };
  const isGone = error instanceof AppError && error.code === "resource_not_found"; // its dataset
  return isGone ? { code: error.code, message: error.message } : undefined;
}

type Run = { ctx: Ctx; row: ExperimentRow; signal: AbortSignal; turn: Turn };

async function runTarget({ ctx, row, signal, turn }: Run, index: number) {
  const target = row.targets[index];
  if (!target) return;
  const lookUp = async <T>(find: () => Promise<T>): Promise<T> => {
    try {
      return await find();
    } catch (error) {
      const isServers = !(error instanceof AppError) || afterFault(error, 1).kind === "server";
      throw isServers ? error : new TargetFailed(target.name, error);
    }
  };
  let deploymentId: string | null | undefined;
  for await (const rows of readRows(ctx, row)) {
    signal.throwIfAborted();
    await turn();
    const due = dueRows(rows, finishedRows(ctx, row, index, rows));
    if (due.length === 0) continue;
    if (deploymentId === undefined) deploymentId = await lookUp(() => openTarget(ctx, row, index));
    await runPage({ ctx, row, index, target, deploymentId, signal, turn }, due);
  }
}

function finishedRows(ctx: Ctx, { id }: ExperimentRow, index: number, rows: readonly QuestionRow[]): Set<number> {
  const { experimentId, target, rowId, finishedAt } = experimentItems;
  const ids = rows.map((row) => row.rowId);
  const done = ctx.db
    .select({ rowId })
    .from(experimentItems)
    .where(and(eq(experimentId, id), eq(target, index), inArray(rowId, ids), isNotNull(finishedAt)))
    .all();
  return new Set(done.map((each) => each.rowId));
}

function countsOf(ctx: Ctx, { id, targets }: ExperimentRow) {
  const { experimentId, target, error } = experimentItems;
  const rows = ctx.db
    .select({ target, items: count(), failed: count(error) })
    .from(experimentItems)
    .where(eq(experimentId, id))
    .groupBy(target)
    .all();
  return rows.map((row) => ({ name: targets[row.target]?.name ?? "", items: row.items, failed: row.failed }));
}
