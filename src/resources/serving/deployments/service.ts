import { and, eq, inArray, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { ACTIVE } from "../../../lib/deployment_status.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { MINUTE_MS } from "../../../lib/units.ts";
import { write } from "../../../platform/db/db.ts";
import { withUniqueName } from "../../../platform/db/errors.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import * as gpu from "../../machines/gpu/service.ts";
import type * as budgets from "../../money/billing/budget.ts";
import * as billing from "../../money/billing/service.ts";
import { bringCheckpoint } from "../../training/training_jobs/artifacts/job_models.ts";
import * as models from "../models/service.ts";
import { type ModelChoice, modelFor, mustFit, toRef } from "./admission.ts";
import { allLive, inflightOf, type Live, liveOf, loadOf, nextLoadOf, peekLive, readyOf } from "./fleet/fleet.ts";
import { halt } from "./fleet/halt.ts";
import * as moves from "./fleet/moves.ts";
import { partsOf, usableParts } from "./fleet/parts.ts";
import { reload, retireStrays, trafficOf } from "./fleet/reconcile.ts";
import { emitChange, machine } from "./machine.ts";
import { desiredReplicas, type Hardware } from "./policy.ts";
import { devicesFor, type PlacementChoice, rateOf } from "./remote/placing.ts";
import { type CreateDeployment, type Deployment, type Load, present, type UpdateDeployment } from "./schema.ts";
import { SETTINGS } from "./settings.ts";
import { afterSwitch, type Plan, planSwitch } from "./switch.ts";
import { type DeploymentRow, deployments } from "./table.ts";
import { insertLine } from "./traffic/log.ts";

const owned = and(
  eq(deployments.id, sql.placeholder("id")),
  eq(deployments.workspaceId, sql.placeholder("workspaceId")),
);
const byId = preparedRow(deployments, owned);
const insert = preparedInsert(deployments);

export function mustGet(ctx: Ctx, workspaceId: string, id: string): DeploymentRow {
  const row = byId(ctx.db, { id, workspaceId });
  if (!row)
    throw new AppError("resource_not_found", `No deployment ${id.slice(0, 80)}: GET /v1/deployments lists them`, {
      param: "id",
    });
  return row;
}

export function list(
  ctx: Ctx,
  workspaceId: string,
  query: PageQuery & { status?: DeploymentRow["status"] | undefined; model?: string | undefined },
) {
  const { status, model } = query;
  const within = and(
    eq(deployments.workspaceId, workspaceId),
    eq(deployments.internal, false),
    status === undefined ? undefined : eq(deployments.status, status),
    model === undefined ? undefined : eq(deployments.model, model),
  );
  return page(ctx.db, deployments, within, query, (row) => view(ctx, row));
}

export function view(ctx: Ctx, row: DeploymentRow): Deployment {
  const live = peekLive(ctx, row.id);
  const ready = row.status === "serving" && row.parked ? 0 : readyOf(live).length;
  return present(row, {
    desired: desiredReplicas(row, trafficOf(ctx, row, live)),
    ready,
    load: describeLoad(ctx, row, live),
    nextLoad: nextLoadOf(row, live),
  });
}

function describeLoad(ctx: Ctx, row: DeploymentRow, live: Live): Load {
  const load = loadOf(row, live);
  const parts = load.stage === "queued" && isActive(row) ? usableParts(ctx, row) : undefined;
  return parts && "waits" in parts && parts.waits === "download"
    ? { ...load, stage: "downloading", progress: parts.progress }
    : load;
}

const isActive = ({ status }: DeploymentRow) => status !== "stopped" && status !== "failed";

/** `internal`: for work of the server itself. */
type Creation = { input: CreateDeployment; place: PlacementChoice; internal?: boolean };

export function create(ctx: Ctx, payer: budgets.Payer, { input, place, internal = false }: Creation) {
  const { workspaceId } = payer;
  const now = ctx.clock.now();
  const row = naming(input.name, () =>
    write(ctx.db, (tx) => {
      const costPerHourMicros = rateOf(ctx, { ...place, workspaceId, gpuType: place.type, gpuCount: place.count });
      billing.mustAfford(ctx, payer, aMinute(costPerHourMicros, input.min_replicas));
      const model = modelFor(ctx, workspaceId, input);
      const deployment = insert(tx, {
        ...BLANK,
        costPerHourMicros,
        ...SETTINGS.columns({ ...input, max_replicas: input.max_replicas ?? Math.max(1, input.min_replicas) }),
        id: newId("dep", now),
        workspaceId,
        ...toRef(input, model),
        gpuType: place.type,
        gpuCount: place.count,
        provider: place.provider,
        region: place.region,
        createdAt: now,
        updatedAt: now,
        apiKeyId: payer.keyId,
        internal,
      });
      mustFit(ctx, deployment, partsOf(ctx, workspaceId, model), place.devices);
      emitChange(tx, "deployment.created", { row: deployment, now });
      insertLine(tx, {
        deploymentId: deployment.id,
        at: now,
        level: "info",
        text: `Created with the model ${deployment.model}`,
      });
      return deployment;
    }),
  );
  ctx.wake("deployments.reconcile");
  return row;
}

/** A deployment that starts must be able to pay for this. */
const aMinute = (ratePerHourMicros: number | null, replicas: number) => ({
  ratePerHourMicros,
  micros: billing.costOf(ratePerHourMicros, MINUTE_MS * Math.max(1, replicas)),
});

/** A parked deployment that wakes must be able to pay for its first minute. */
export const mustAffordWake = (ctx: Ctx, payer: budgets.Payer, { costPerHourMicros }: DeploymentRow) =>
  billing.mustAfford(ctx, payer, aMinute(costPerHourMicros, 1));

const BLANK = {
  nextModel: null,
  previousModel: null,
  status: machine.initial,
  parked: false,
  waking: false,
  attempts: 0,
  nextAttemptAt: null,
  error: null,
  errorCode: null,
  queueReason: null,
  queuedMs: 0,
  totalCostMicros: 0,
  costRemainder: 0,
  chargedReplicas: 1,
  totalRequests: 0,
  totalErrors: 0,
  totalPromptTokens: 0,
  totalCompletionTokens: 0,
  totalLatencyMs: 0,
  uptimeMs: 0,
  upSince: null,
  billedUntil: null,
  startedAt: null,
  stoppedAt: null,
  lastRequestAt: null,
};

/** The key of `payer` pays from here on if the change wakes the deployment. */
export async function update(ctx: Ctx, payer: budgets.Payer, id: string, input: UpdateDeployment) {
  const { workspaceId } = payer;
  const before = mustGet(ctx, workspaceId, id);
  const { model, checkpoint = null } = input;
  const chosen = model === undefined ? {} : await bringCheckpoint(ctx, workspaceId, { model, checkpoint });
  const hardware = await devicesFor(ctx, before);
  return change(ctx, { payer, before: mustGet(ctx, workspaceId, id), input: { ...input, ...chosen }, hardware });
}

type Change = { payer: budgets.Payer; before: DeploymentRow; input: UpdateDeployment; hardware: Hardware };

function change(ctx: Ctx, { payer, before, input, hardware }: Change): DeploymentRow {
  const { id, workspaceId } = before;
  const now = ctx.clock.now();
  const max = input.max_replicas ?? before.maxReplicas;
  const min = input.min_replicas ?? before.minReplicas;
  if (min > max)
    throw new AppError("schema", `min_replicas: ${min} is more than max_replicas (${max}): raise max_replicas too`, {
      param: "/min_replicas",
    });
  const patch = SETTINGS.changes(input);
  if (Object.keys(patch).length === 0 && input.model === undefined) return before;
  const wakes = before.parked && min > 0;
  if (wakes) mustAffordWake(ctx, payer, before);
  const isAnswering = before.status === "serving" && !before.parked && readyOf(peekLive(ctx, id)).length > 0;
  let plan: Plan | undefined;
  const row = naming(input.name ?? "", () =>
    write(ctx.db, (tx) => {
      const chosen = choiceOf(input);
      const to = chosen && toRef(chosen, modelFor(ctx, workspaceId, chosen));
      plan = to && planSwitch(before, to, isAnswering);
      const changed = tx
        .update(deployments)
        .set({ ...patch, ...(plan && moves.switchPatch(before, plan)), updatedAt: now })
        .where(eq(deployments.id, id))
        .returning()
        .get();
      const after = afterSwitch(changed);
      const model = to || isResized(changed, before) ? models.find(ctx, workspaceId, after.modelId ?? "") : undefined;
      if (model) mustFit(ctx, after, partsOf(ctx, workspaceId, model), hardware);
      if (plan?.when === "now") moves.emitSwitched(tx, changed, now);
      emitChange(tx, "deployment.updated", { row: changed, now });
      const text = `Changed: ${Object.keys(input).join(", ")}`;
      insertLine(tx, { deploymentId: id, at: now, level: "info", text });
      if (wakes) moves.wake(ctx, id, payer.keyId); // the floor of replicas holds from now on
      return changed;
    }),
  );
  if (row.pinned !== before.pinned) for (const { holder } of liveOf(ctx, id).replicas) gpu.pin(ctx, holder, row.pinned);
  if (plan) retireStrays(ctx, row);
  if (isResized(row, before) && plan?.when !== "later") reload(ctx, row);
  ctx.wake("deployments.reconcile");
  return moves.current(ctx.db, id) ?? row;
}

const choiceOf = ({ model, source, checkpoint = null }: UpdateDeployment): ModelChoice | undefined =>
  model === undefined ? undefined : { model, source, checkpoint };

const isResized = (a: DeploymentRow, b: DeploymentRow) =>
  a.contextLength !== b.contextLength || a.parallel !== b.parallel || a.kvType !== b.kvType;

/** Aborts its requests. A stopped or failed deployment stays as it is. */
export function stop(ctx: Ctx, workspaceId: string, id: string): DeploymentRow {
  const before = mustGet(ctx, workspaceId, id);
  return halt(ctx, before, { error: before.error }) ?? before;
}

/** Called when the workspace is deleted. */
export function stopAll(ctx: Ctx, workspaceId: string) {
  const active = and(eq(deployments.workspaceId, workspaceId), inArray(deployments.status, ACTIVE));
  const rows = ctx.db.select({ id: deployments.id }).from(deployments).where(active).all();
  for (const { id } of rows) stop(ctx, workspaceId, id);
}

/** The key of `payer` pays from here on. */
export function start(ctx: Ctx, payer: budgets.Payer, id: string): DeploymentRow {
  const before = mustGet(ctx, payer.workspaceId, id);
  const costPerHourMicros = rateOf(ctx, before); // the present rate
  const patch = {
    apiKeyId: payer.keyId,
    costPerHourMicros,
    error: null,
    errorCode: null,
    queueReason: null,
    queuedMs: 0,
    attempts: 0,
    stoppedAt: null,
    parked: false,
    waking: false,
    nextAttemptAt: null,
  };
  if (before.status === "stopped" || before.status === "failed")
    billing.mustAfford(ctx, payer, aMinute(costPerHourMicros, before.minReplicas));
  const row = naming(before.name, () => moves.move(ctx, id, "start", patch));
  if (!row)
    throw new AppError(
      "unsupported_state",
      `Deployment ${before.name} is ${before.status}: only a stopped or failed one can be started`,
    );
  ctx.wake("deployments.reconcile");
  return row;
}

const naming = <T>(name: string, fn: () => T): T =>
  withUniqueName(`A deployment named ${JSON.stringify(name)} is active: stop it or choose another name`, fn);

/** `held`: requests that wait for a replica. `open`: all that have not ended. By deployment. */
export const requestsNow = (ctx: Ctx) =>
  new Map(allLive(ctx).map((live) => [live.id, { held: live.held.size, open: inflightOf(live) }]));
