/** Monitors: a threshold over a metric. The severity changes only in evaluate.ts. */
import { and, count, eq, sql } from "drizzle-orm";
import type { Ctx, Principal } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { SECOND_MS } from "../../../lib/units.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { withUniqueName } from "../../../platform/db/errors.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import * as evaluators from "../../quality/evaluators/service.ts";
import { isOfScore } from "./metrics.ts";
import { type Comparison, NEW_STATE, NO_RUNS, type Severity, type Thresholds, thresholdFault } from "./policy.ts";
import {
  type CreateMonitor,
  type MuteMonitor,
  present,
  presentChange,
  report,
  type ThresholdFields,
  type UpdateMonitor,
} from "./schema.ts";
import { SETTINGS } from "./settings.ts";
import { type MonitorRow, monitorChanges, monitors } from "./table.ts";
import { comparisonOf, mustHaveTargets } from "./targets.ts";

const byId = preparedRow(
  monitors,
  and(eq(monitors.id, sql.placeholder("id")), eq(monitors.workspaceId, sql.placeholder("workspaceId"))),
);
const insert = preparedInsert(monitors);

export function mustGet(ctx: Pick<Ctx, "db">, workspaceId: string, id: string): MonitorRow {
  const row = byId(ctx.db, { id, workspaceId });
  if (!row)
    throw new AppError("resource_not_found", `No monitor ${id.slice(0, 80)}: GET /v1/monitors lists them`, {
      param: "id",
    });
  return row;
}

export function list(ctx: Ctx, workspaceId: string, query: PageQuery & { severity?: Severity | undefined }) {
  const { severity } = query;
  const within = and(
    eq(monitors.workspaceId, workspaceId),
    severity === undefined ? undefined : eq(monitors.severity, severity),
  );
  return page(ctx.db, monitors, within, query, present);
}

export function history(ctx: Ctx, workspaceId: string, id: string, query: PageQuery) {
  mustGet(ctx, workspaceId, id);
  return page(ctx.db, monitorChanges, eq(monitorChanges.monitorId, id), query, presentChange);
}

/** The row of a new monitor, after all checks of its fields. It is not stored. */
export function draft(ctx: Ctx, principal: Principal, input: CreateMonitor): MonitorRow {
  const { workspaceId } = principal;
  const now = ctx.clock.now();
  const targets = mustHaveTargets(ctx, principal, input);
  const comparison = input.comparison ?? comparisonOf(input.metric);
  const { severity, ...state } = NEW_STATE;
  return {
    id: newId("mon", now),
    workspaceId,
    metric: input.metric,
    ...targets,
    ...SETTINGS.columns({ ...input, comparison }),
    ...mustBeOrdered(comparison, thresholdsOf(input.thresholds)),
    ...onlineOf(ctx, input, { workspaceId, metric: input.metric, deploymentId: targets.deploymentId }),
    severity,
    state,
    value: null,
    samples: null,
    mutedUntil: null,
    evaluatedAt: null,
    changedAt: null,
    createdAt: now,
    updatedAt: now,
  };
}

export function create(ctx: Ctx, principal: Principal, input: CreateMonitor): MonitorRow {
  const { workspaceId } = principal;
  const row = draft(ctx, principal, input);
  const now = row.createdAt;
  naming(input.name, () =>
    write(ctx.db, (tx) => {
      requireRoom(tx, workspaceId, ctx.config.monitors.max_per_workspace);
      insert(tx, row);
      emit(tx, "monitor.created", { workspaceId, now }, report(row));
    }),
  );
  ctx.wake("monitors.evaluate");
  return row;
}

/** A changed rule begins to count again. The severity stays until the next evaluation. */
export function update(ctx: Ctx, workspaceId: string, id: string, input: UpdateMonitor): MonitorRow {
  const now = ctx.clock.now();
  return naming(input.name ?? "", () =>
    write(ctx.db, (tx) => {
      const before = mustGet(ctx, workspaceId, id);
      const { name = before.name, metadata = before.metadata, ...others } = SETTINGS.changes(input);
      const { alert, warning, alertRecovery, warningRecovery } = mustBeOrdered(
        others.comparison ?? before.comparison,
        input.thresholds ? thresholdsOf(input.thresholds) : before,
      );
      const rule = { ...others, alert, warning, alertRecovery, warningRecovery };
      const isNew = (Object.keys(rule) as (keyof typeof rule)[]).some((field) => rule[field] !== before[field]);
      const set = {
        name,
        metadata,
        ...rule,
        ...(input.online_evaluation === undefined ? {} : onlineOf(ctx, input, before)),
        ...(isNew ? { state: { ...before.state, runs: NO_RUNS }, evaluatedAt: null } : {}), // null: due at once
        updatedAt: now,
      };
      const row = { ...before, ...set };
      tx.update(monitors).set(set).where(eq(monitors.id, id)).run();
      emit(tx, "monitor.updated", { workspaceId, now }, report(row));
      return row;
    }),
  );
}

export function mute(ctx: Ctx, workspaceId: string, id: string, { until, seconds }: MuteMonitor): MonitorRow {
  const now = ctx.clock.now();
  const end = seconds === undefined ? (until ? Date.parse(until) : null) : now + Math.round(seconds * SECOND_MS);
  return write(ctx.db, (tx) => {
    const before = mustGet(ctx, workspaceId, id);
    const set = { mutedUntil: end !== null && end > now ? end : null, updatedAt: now };
    tx.update(monitors).set(set).where(eq(monitors.id, id)).run();
    emit(tx, "monitor.updated", { workspaceId, now }, report(before));
    return { ...before, ...set };
  });
}

export function remove(ctx: Ctx, workspaceId: string, id: string): MonitorRow {
  return write(ctx.db, (tx) => {
    const row = mustGet(ctx, workspaceId, id);
    tx.delete(monitors).where(eq(monitors.id, id)).run(); // its changes go with it
    emit(tx, "monitor.deleted", { workspaceId, now: ctx.clock.now() }, report(row));
    return row;
  });
}

/** For a workspace that is deleted. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const rows = ctx.db.select({ id: monitors.id }).from(monitors).where(eq(monitors.workspaceId, workspaceId)).all();
  for (const { id } of rows) remove(ctx, workspaceId, id);
}

const thresholdsOf = (fields: ThresholdFields): Thresholds => ({
  alert: fields.alert ?? null,
  warning: fields.warning ?? null,
  alertRecovery: fields.alert_recovery ?? null,
  warningRecovery: fields.warning_recovery ?? null,
});

function mustBeOrdered(comparison: Comparison, thresholds: Thresholds): Thresholds {
  const fault = thresholdFault(comparison, thresholds);
  if (!fault) return thresholds;
  const { field, message } = fault;
  throw new AppError("schema", `thresholds.${field}: ${message}`, { param: `/thresholds/${field}` });
}

/** Captured requests belong to a deployment, and their scores feed a metric of scores. */
function onlineOf(
  ctx: Ctx,
  { online_evaluation: online }: Pick<CreateMonitor, "online_evaluation">,
  { workspaceId, metric, deploymentId }: Pick<MonitorRow, "workspaceId" | "metric" | "deploymentId">,
) {
  if (!online) return { evaluator: null, samplePercent: null, sampledUntil: null };
  const refuse = (message: string) =>
    new AppError("schema", `online_evaluation: ${message}`, { param: "/online_evaluation" });
  if (!isOfScore(metric)) throw refuse("needs a metric of scores: score_mean, score_psi or score_ks");
  if (deploymentId === null) throw refuse("needs deployment_id");
  evaluators.resolve(ctx, workspaceId, online.evaluator, "/online_evaluation/evaluator");
  return { evaluator: online.evaluator, samplePercent: online.sample_percent, sampledUntil: ctx.clock.now() };
}

function requireRoom(tx: Tx, workspaceId: string, most: number) {
  const counted = tx.select({ number: count() }).from(monitors).where(eq(monitors.workspaceId, workspaceId)).get();
  if ((counted?.number ?? 0) >= most)
    throw new AppError(
      "quota_exceeded",
      `This workspace has ${most} monitors, which is the limit. Delete one, or ask the operator to raise monitors.max_per_workspace`,
    );
}

const naming = <T>(name: string, fn: () => T): T =>
  withUniqueName(`A monitor named ${JSON.stringify(name)} exists: choose another name`, fn);
