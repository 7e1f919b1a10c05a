/** One experiment from its first due item to its end: target by target, page by page of rows. */
import { and, count, eq, inArray, isNotNull } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { transition } from "../../../../events/lifecycle.ts";
import { AppError } from "../../../../lib/errors.ts";
import { nextTurn, type Turn, takingTurns } from "../../../../lib/turns.ts";
import { durable, watchWrites, write } from "../../../../platform/db/db.ts";
import { prepareTemporary } from "../../../serving/deployments/temporary.ts";
import { link } from "../links.ts";
import { machine } from "../machine.ts";
import { afterFault, dueRows, failureOf, targetOrder } from "../policy.ts";
import { current, end, releaseTarget } from "../service.ts";
import { type ExperimentRow, experimentItems, experiments } from "../table.ts";
import { type Answered, answerRow, TargetFailed, type Work } from "./item.ts";
import { type QuestionRow, readRows } from "./rows.ts";
import { scoreItems } from "./scoring.ts";

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

/**
 * Finds or creates the deployment that answers for a target; null for recorded outputs. A temporary deployment and its
 * id in the experiment are one commit, so a kill leaves no deployment that no experiment stops.
 */
async function openTarget(ctx: Ctx, row: ExperimentRow, index: number): Promise<string | null> {
  const target = (current(ctx, row.id) ?? row).targets[index];
  if (!target || target.type === "outputs") return null;
  if (target.deploymentId !== null) return target.deploymentId;
  const create = await prepareTemporary(ctx, {
    workspaceId: row.workspaceId,
    keyId: row.apiKeyId ?? "",
    model: target.jobId ?? target.model ?? "",
    checkpoint: target.checkpointId,
    name: `${row.id}-${index}`,
    metadata: { experiment_id: row.id, target: target.name },
  });
  const id = write(ctx.db, (tx) => {
    const fresh = tx.select().from(experiments).where(eq(experiments.id, row.id)).get();
    if (fresh?.status !== "running") throw new Error(`experiment ${row.id} has ended`);
    const deployment = create();
    const targets = fresh.targets.map((each, i) => (i === index ? { ...each, deploymentId: deployment.id } : each));
    tx.update(experiments).set({ targets, updatedAt: ctx.clock.now() }).where(eq(experiments.id, row.id)).run();
    link(tx, { ...fresh, targets });
    return deployment.id;
  });
  await durable(ctx.db);
  return id;
}

/** Code evaluators start a process for each batch, and a judge is asked this many questions at once. */
const SCORED_AT_ONCE = 16;

/**
 * One page of rows for one target. Answers are scored in batches while the next rows are answered. The first fault
 * stops the page, and is thrown when nothing of the page runs any more.
 */
async function runPage(work: Work, due: readonly QuestionRow[]): Promise<void> {
  const { row, signal, turn } = work;
  const answered: Answered[] = [];
  const faults: unknown[] = [];
  const note = (error: unknown) => void faults.push(error);
  const isOn = () => faults.length === 0 && !signal.aborted;
  const score = async () => {
    while (answered.length > 0 && isOn()) await scoreItems(work, answered.splice(0, SCORED_AT_ONCE)).catch(note);
    scoring = undefined;
  };
  let scoring: Promise<void> | undefined;
  let next = 0;
  const lane = async () => {
    for (; next < due.length && isOn(); await turn()) {
      const done = await answerRow(work, due[next++] as QuestionRow).catch(note);
      if (!done) continue;
      answered.push(done);
      scoring ??= score();
    }
  };
  await Promise.all(Array.from({ length: Math.min(row.concurrency, due.length) }, lane));
  await scoring;
  if (faults.length > 0) throw faults[0];
}
