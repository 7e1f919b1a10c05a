/** Experiments: several targets answer the rows of a snapshot, and evaluators score the answers. */
import { and, eq, inArray, isNull, sql } from "drizzle-orm";
import type { Ctx, Principal } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { transition } from "../../../events/lifecycle.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import type { Once } from "../../../http/idempotency.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { afterCommit, type Tx, write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { limitWaiting } from "../../../platform/db/waiting_limit.ts";
import * as snapshots from "../../data/datasets/stream/snapshots.ts";
import * as deployments from "../../serving/deployments/service.ts";
import { isLinkedTo, link, unlink } from "./links.ts";
import { machine, report } from "./machine.ts";
import { type CreateExperiment, type Experiment, present } from "./schema.ts";
import { type ExperimentRow, experimentItems, experiments, type ItemRow, type STATUSES } from "./table.ts";
import { baselineIndex, resolveEvaluators, resolveTargets } from "./targets.ts";

/** Rows × targets of one experiment. */
const MAX_ITEMS = 100_000;

const byId = preparedRow(
  experiments,
  and(eq(experiments.id, sql.placeholder("id")), eq(experiments.workspaceId, sql.placeholder("workspaceId"))),
);
const anyById = preparedRow(experiments, eq(experiments.id, sql.placeholder("id")));
const insert = preparedInsert(experiments);

export function mustGet(ctx: Ctx, workspaceId: string, id: string): ExperimentRow {
  const row = byId(ctx.db, { id, workspaceId });
  if (!row)
    throw new AppError("resource_not_found", `No experiment ${id.slice(0, 80)}: GET /v1/experiments lists them`, {
      param: "id",
    });
  return row;
}

export function mustGetItem(ctx: Ctx, workspaceId: string, id: string): ItemRow {
  const row = ctx.db
    .select({ item: experimentItems })
    .from(experimentItems)
    .innerJoin(experiments, eq(experiments.id, experimentItems.experimentId))
    .where(and(eq(experimentItems.id, id), eq(experiments.workspaceId, workspaceId)))
    .get();
  if (row) return row.item;
  throw new AppError(
    "resource_not_found",
    `No experiment item ${id.slice(0, 80)}: GET /v1/experiments/{id}/items lists them`,
    { param: "id" },
  );
}

/** Finds an experiment in any workspace. For the background loop. */
export const current = (ctx: Pick<Ctx, "db">, id: string): ExperimentRow | undefined => anyById(ctx.db, { id });

type ListQuery = PageQuery & {
  status?: (typeof STATUSES)[number] | undefined;
  dataset_id?: string | undefined;
  deployment_id?: string | undefined;
  job_id?: string | undefined;
  evaluator_id?: string | undefined;
};

export function list(ctx: Ctx, workspaceId: string, query: ListQuery) {
  const { status, dataset_id: datasetId, deployment_id, job_id, evaluator_id } = query;
  const linked = [deployment_id, job_id, evaluator_id].filter((id) => id !== undefined);
  const within = and(
    eq(experiments.workspaceId, workspaceId),
    status === undefined ? undefined : eq(experiments.status, status),
    datasetId === undefined ? undefined : eq(experiments.datasetId, datasetId),
    ...linked.map((id) => isLinkedTo(ctx.db, id)),
  );
  return page(ctx.db, experiments, within, query, present);
}

/** Pins the snapshot, so that the dataset cannot be deleted while the experiment runs. */
export async function create(ctx: Ctx, caller: Principal, body: CreateExperiment, once?: Once): Promise<Experiment> {
  const before = once && write(ctx.db, (tx) => once.before(tx));
  if (before) return before as Experiment; // the answer that `keep` stored
  const { workspaceId } = caller;
  mustHaveRoom(ctx, workspaceId);
  const targets = resolveTargets(ctx, workspaceId, body.targets);
  const evaluators = resolveEvaluators(ctx, workspaceId, body.evaluators);
  const baseline = baselineIndex(body, targets);
  const now = ctx.clock.now();
  const id = newId("exp", now);
  const { admitting } = ctx.state.experiments;
  admitting.add(id);
  try {
    const { dataset, snapshot } = await snapshots.pin(ctx, workspaceId, body.dataset, id);
    const rowCount = Math.min(snapshot.rowCount, body.max_rows ?? snapshot.rowCount);
    mustHaveItems(rowCount, targets.length);
    const row: ExperimentRow = {
      id,
      workspaceId,
      name: body.name ?? `${dataset.name} (${targets.map(({ name }) => name).join(", ")})`.slice(0, 200),
      status: machine.initial,
      datasetId: dataset.id,
      snapshotNumber: snapshot.number,
      rowCount,
      targets,
      evaluators,
      baseline,
      params: body.params,
      systemPrompt: body.system_prompt ?? null,
      referenceField: body.reference_field ?? null,
      concurrency: body.concurrency,
      itemsDone: 0,
      itemsFailed: 0,
      error: null,
      errorCode: null,
      apiKeyId: caller.keyId,
      metadata: body.metadata,
      createdAt: now,
      updatedAt: now,
      startedAt: null,
      finishedAt: null,
    };
    return write(ctx.db, (tx) => {
      mustHaveRoom({ ...ctx, db: tx }, workspaceId);
      insert(tx, row);
      link(tx, row);
      emit(tx, "experiment.created", { workspaceId, now }, report(row));
      const shown = present(row);
      once?.keep(tx, shown);
      afterCommit(tx, () => wake(ctx));
      return shown;
    });
  } catch (error) {
    write(ctx.db, (tx) => snapshots.unpin(tx, id));
    throw error;
  } finally {
    admitting.delete(id);
  }
}

/** 429 if too many experiments of the workspace have not ended. */
const mustHaveRoom = (on: Pick<Ctx, "db" | "config">, workspaceId: string) =>
  limitWaiting(
    on,
    "experiments",
    experiments,
    and(eq(experiments.workspaceId, workspaceId), inArray(experiments.status, ["queued", "running"])),
  );

function mustHaveItems(rows: number, targets: number) {
  if (rows === 0)
    throw new AppError("schema", "dataset: the snapshot has no rows: append rows first", { param: "/dataset" });
  if (rows * targets > MAX_ITEMS)
    throw new AppError(
      "schema",
      `max_rows: ${rows} rows × ${targets} targets are more than ${MAX_ITEMS} items: set max_rows to ${Math.floor(MAX_ITEMS / targets)} or less`,
      { param: "/max_rows" },
    );
}

function wake(ctx: Ctx) {
  ctx.wake("experiments.run");
  ctx.state.experiments.bell.resolve();
}

type End = { action: "complete" | "fail" | "cancel"; error?: { code: string; message: string } };

/** Ends an experiment. Its temporary deployments stop and its snapshot is unpinned in the same commit. */
export function end(ctx: Ctx, id: string, { action, error }: End): ExperimentRow | undefined {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const fault = error ? { error: error.message, errorCode: error.code } : {};
    const row = transition(tx, machine, action, { id, now }, { ...fault, finishedAt: now });
    if (!row) return undefined;
    snapshots.unpin(tx, id);
    for (let i = 0; i < row.targets.length; i++) releaseTarget(ctx, row, i);
    afterCommit(tx, () => {
      ctx.state.experiments.running.get(id)?.stop.abort(new Error(`experiment ${id} has ended`));
      wake(ctx);
    });
    return row;
  });
}

/** Stops the temporary deployment of a target. A deployment of the user goes on. */
export function releaseTarget(ctx: Ctx, { workspaceId, targets }: ExperimentRow, index: number) {
  const target = targets[index];
  if (!target?.temporary || target.deploymentId === null) return;
  try {
    deployments.stop(ctx, workspaceId, target.deploymentId);
  } catch (error) {
    if (!(error instanceof AppError && error.code === "resource_not_found")) throw error; // pruned long ago
  }
}

/** Finished items stay. Cancelling twice changes nothing. */
export function cancel(ctx: Ctx, workspaceId: string, id: string): ExperimentRow {
  const before = mustGet(ctx, workspaceId, id);
  const row = end(ctx, id, { action: "cancel" });
  if (!row && before.status !== "cancelled")
    throw new AppError("unsupported_state", `Experiment ${id} is already ${before.status}`, { param: "id" });
  return row ?? before;
}

/** The loop `experiments.sweep` deletes the items afterwards. */
export function remove(ctx: Ctx, workspaceId: string, id: string): ExperimentRow {
  const row = mustGet(ctx, workspaceId, id);
  if (row.finishedAt === null)
    throw new AppError("unsupported_state", `Experiment ${id} is ${row.status}: cancel it first`, { param: "id" });
  write(ctx.db, (tx) => removeRow(ctx, tx, row));
  return row;
}

function removeRow(ctx: Ctx, tx: Tx, row: ExperimentRow) {
  tx.delete(experiments).where(eq(experiments.id, row.id)).run();
  unlink(tx, row);
  emit(tx, "experiment.deleted", { workspaceId: row.workspaceId, now: ctx.clock.now() }, report(row));
  afterCommit(tx, () => ctx.wake("experiments.sweep"));
}

/** For a workspace that is being deleted. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const isOfWorkspace = eq(experiments.workspaceId, workspaceId);
  const active = ctx.db
    .select({ id: experiments.id })
    .from(experiments)
    .where(and(isOfWorkspace, isNull(experiments.finishedAt)))
    .all();
  for (const { id } of active) end(ctx, id, { action: "cancel" });
  write(ctx.db, (tx) => {
    for (const row of tx.select().from(experiments).where(isOfWorkspace).all()) removeRow(ctx, tx, row);
  });
}

/** The item whose answer has this trace; undefined: no experiment of the workspace asked for it. */
export function itemOfTrace(ctx: Ctx, workspaceId: string, traceId: string) {
  const { id, experimentId, rowId } = experimentItems;
  return ctx.db
    .select({ id, experiment_id: experimentId, row_id: rowId })
    .from(experimentItems)
    .innerJoin(experiments, eq(experiments.id, experimentId))
    .where(and(eq(experimentItems.traceId, traceId), eq(experiments.workspaceId, workspaceId)))
    .get();
}
