/** Every change of a deployment's row that follows from its replicas or from time, with its charge in the same commit. */
import { eq, inArray, isNotNull } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { transition } from "../../../../events/lifecycle.ts";
import { ACTIVE } from "../../../../lib/deployment_status.ts";
import { MINUTE_MS } from "../../../../lib/units.ts";
import { type Tx, write } from "../../../../platform/db/db.ts";
import { isCloud } from "../../../machines/regions/table.ts";
import { beginRun, endRun, runTime } from "../../../money/billing/run_time.ts";
import * as billing from "../../../money/billing/service.ts";
import { type Action, emitChange, machine } from "../machine.ts";
import { FORGIVEN_AFTER_MS, judgeLoss, restartDelayMs, type Verdict } from "../policy.ts";
import { type Plan, takeOver } from "../switch.ts";
import { type DeploymentRow, deployments, type ModelRef } from "../table.ts";
import { insertLine } from "../traffic/log.ts";

type Patch = Partial<typeof deployments.$inferInsert>;

export const current = (tx: Pick<Tx, "select">, id: string): DeploymentRow | undefined =>
  tx.select().from(deployments).where(eq(deployments.id, id)).get();

/** No replica runs afterwards, so a switch that was under way has nothing to wait for. */
const RESTS: ReadonlySet<Action> = new Set<Action>(["park", "doze", "stop", "fail"]);

/** One transition with its charge. Undefined: the row was in another state, and nothing happened. */
export function move(ctx: Ctx, id: string, action: Action, patch: Patch = {}): DeploymentRow | undefined {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const before = current(tx, id);
    if (!before) return undefined;
    const leavesService = action !== "serve" && action !== "place" && action !== "start";
    const settled = leavesService ? settle(ctx, before, { ends: true }) : NOTHING;
    const next = RESTS.has(action) ? before.nextModel : null;
    const switched = next === null ? {} : takeOver(before, next);
    const row = transition(tx, machine, action, { id, now }, { ...settled.patch, ...switched, ...patch });
    if (row && settled.bill) charge(ctx, tx, settled, now);
    if (row) insertLine(tx, { deploymentId: id, at: now, ...lineOf(action, row) });
    if (row && next !== null) emitSwitched(tx, row, now);
    return row;
  });
}

const LINES: Readonly<Record<Action, string>> = {
  place: "Memory is reserved: a replica starts",
  serve: "The deployment serves",
  park: "The deployment is parked: the next request wakes it",
  wake: "A request wakes the deployment",
  doze: "The deployment did not wake and is parked again",
  sicken: "No replica serves: another one is started",
  restart: "The deployment starts again",
  fail: "The deployment failed",
  stop: "The deployment is stopped",
  start: "The deployment is started",
};
const ERRORS: ReadonlySet<Action> = new Set<Action>(["doze", "sicken", "fail"]);

const lineOf = (action: Action, { error }: DeploymentRow) => ({
  level: ERRORS.has(action) ? ("error" as const) : ("info" as const),
  text: error !== null && ERRORS.has(action) ? `${LINES[action]}: ${error}` : LINES[action],
});

type Settled = { patch: Patch; bill: billing.Bill | null };
const NOTHING: Settled = { patch: {}, bill: null };

/** The time since the last account becomes uptime and cost. `ends`: no more of it until the deployment serves again. */
function settle(ctx: Ctx, row: DeploymentRow, { ends }: { ends: boolean }): Settled {
  if (row.upSince === null) return NOTHING;
  const ms = Math.max(0, runTime(ctx, row.id) - row.upSince);
  const bill = billing.billFor({
    workspaceId: row.workspaceId,
    keyId: row.apiKeyId,
    until: ctx.clock.now(),
    kind: "deployment",
    id: row.id,
    label: `Deployment ${row.name}`,
    usedMs: row.uptimeMs,
    ms,
    ratePerHourMicros: row.costPerHourMicros,
    count: row.chargedReplicas,
    remainder: row.costRemainder,
    isPaidByMachine: isCloud(row.provider),
  });
  const since = ends ? null : row.upSince + ms;
  const patch = {
    uptimeMs: row.uptimeMs + ms,
    upSince: since,
    billedUntil: since,
    totalCostMicros: row.totalCostMicros + bill.micros,
    costRemainder: bill.remainder,
  };
  return { patch, bill };
}

/** In the commit in which the row takes the patch. */
function charge(ctx: Ctx, tx: Tx, { patch, bill }: Settled, now: number) {
  if (!bill) return;
  billing.charge(tx, bill, now);
  if (patch.upSince === null) endRun(ctx, tx, bill.id);
}

/** The row takes the account and other changes in one commit with the charge. */
function put(ctx: Ctx, tx: Tx, row: DeploymentRow, settled: Settled) {
  tx.update(deployments).set(settled.patch).where(eq(deployments.id, row.id)).run();
  charge(ctx, tx, settled, ctx.clock.now());
}

/**
 * Charges each full minute of service, so that a crash loses less than a minute, and each change in the number of
 * replicas. After some time in service, earlier crashes no longer count.
 */
export function keepAccount(ctx: Ctx, row: DeploymentRow, replicas: number) {
  if (row.upSince === null) return;
  const count = Math.max(1, replicas);
  const ms = runTime(ctx, row.id) - row.upSince;
  const due = ms >= MINUTE_MS || count !== row.chargedReplicas;
  const forgiven = row.attempts > 0 && ms >= FORGIVEN_AFTER_MS;
  if (!due && !forgiven) return;
  write(ctx.db, (tx) => {
    const fresh = current(tx, row.id);
    if (fresh?.status !== "serving") return;
    const { patch, bill } = settle(ctx, fresh, { ends: false });
    const more = { chargedReplicas: count, ...(forgiven ? { attempts: 0, error: null } : {}) };
    put(ctx, tx, fresh, { patch: { ...patch, ...more }, bill });
  });
}

/** Called when the server stops: the present minute is charged too. */
export function keepAllAccounts(ctx: Ctx) {
  write(ctx.db, (tx) => {
    for (const row of tx.select().from(deployments).where(isNotNull(deployments.upSince)).all())
      put(ctx, tx, row, settle(ctx, row, { ends: true }));
  });
}

export function serve(ctx: Ctx, id: string): DeploymentRow | undefined {
  const now = ctx.clock.now();
  const startedAt = current(ctx.db, id)?.startedAt ?? now;
  const row = move(ctx, id, "serve", {
    parked: false,
    waking: false,
    error: null,
    queueReason: null,
    nextAttemptAt: null,
    startedAt,
    upSince: now,
    billedUntil: now,
    chargedReplicas: 1,
  });
  if (row) beginRun(ctx, id);
  return row;
}

export const park = (ctx: Ctx, id: string) => move(ctx, id, "park", { parked: true });

/** The first request wakes it, and its key pays from here on. `attempts`: wakes that have failed before this one. */
export const wake = (ctx: Ctx, id: string, apiKeyId: string | null, attempts = 0) =>
  move(ctx, id, "wake", { apiKeyId, parked: false, waking: true, attempts, nextAttemptAt: null, queueReason: null });

/** A wake that cannot begin now. The next attempt comes later. */
export const postponeWake = (ctx: Ctx, row: DeploymentRow, error: string) =>
  write(ctx.db, (tx) => update(tx, row, { error, ...nextAttempt(ctx, row) }));

const nextAttempt = (ctx: Ctx, { attempts: before }: DeploymentRow) => {
  const attempts = before + 1;
  return { attempts, nextAttemptAt: ctx.clock.now() + restartDelayMs(attempts, ctx.config.serving.restart_backoff_ms) };
};

export const setQueueReason = (ctx: Ctx, row: DeploymentRow, reason: string | null) => {
  if (row.queueReason === reason) return;
  write(ctx.db, (tx) => tx.update(deployments).set({ queueReason: reason }).where(eq(deployments.id, row.id)).run());
};

/** `code`: the error code of the deployment if it fails. */
export type Loss = { error: string; code: NonNullable<DeploymentRow["errorCode"]>; canRetry: boolean };

/** The last replica was lost, or none could start. Returns the decision. */
export function lose(ctx: Ctx, id: string, { error, code, canRetry }: Loss): Verdict | undefined {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const row = current(tx, id);
    if (!row || row.parked || row.status === "stopped" || row.status === "failed") return undefined;
    const { restart_attempts: most } = ctx.config.serving;
    const verdict = judgeLoss(row, canRetry || row.nextModel !== null, row.nextModel === null ? most : Infinity);
    const again = { error, ...nextAttempt(ctx, row) };
    if (verdict === "doze") move(ctx, id, "doze", { ...again, parked: true, waking: false, queueReason: null });
    else if (verdict === "fail")
      move(ctx, id, "fail", { error, errorCode: code, waking: false, queueReason: null, nextAttemptAt: null });
    else if (verdict === "sicken") move(ctx, id, "sicken", again);
    else
      tx.update(deployments)
        .set({ ...again, updatedAt: now })
        .where(eq(deployments.id, id))
        .run();
    return verdict;
  });
}

/** Called at the start: no replica outlived the last server. */
export function recover(ctx: Ctx) {
  for (const row of ctx.db.select().from(deployments).where(inArray(deployments.status, ACTIVE)).all()) {
    // The time of the crash is unknown: the time since the last charge is not charged.
    const down = { upSince: null, billedUntil: null, nextAttemptAt: null, queueReason: null };
    const step = (action: Action, patch: Patch = {}) =>
      write(ctx.db, (tx) =>
        transition(tx, machine, action, { id: row.id, now: ctx.clock.now() }, { ...down, ...patch }),
      );
    if (row.status === "serving" && !row.parked) step("restart");
    else if (row.status === "provisioning" && row.waking) step("doze", { parked: true, waking: false });
  }
}

/** A failed deployment keeps its cause. */
export const switchPatch = ({ status, error }: DeploymentRow, { when, patch }: Plan): Patch =>
  when === "never"
    ? patch
    : { ...patch, error: status === "failed" ? error : null, attempts: 0, nextAttemptAt: null, queueReason: null };

const nameOf = ({ model, checkpoint }: ModelRef) => (checkpoint === null ? model : `${model} (${checkpoint})`);

/** In the commit in which `model` of the row changes. */
export const emitSwitched = (tx: Tx, row: DeploymentRow, now: number) =>
  emitChange(
    tx,
    "deployment.switched",
    { row, now },
    { model: row.model, previous_model: row.previousModel?.model ?? null },
  );

/** A replica of the next model is ready: it takes over. False: that switch is no longer under way. */
export function completeSwitch(ctx: Ctx, id: string, modelId: string | null): boolean {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const row = current(tx, id);
    if (!row?.nextModel || row.nextModel.modelId !== modelId) return false;
    const more = { error: null, queueReason: null, attempts: 0, nextAttemptAt: null, updatedAt: now };
    emitSwitched(tx, update(tx, row, { ...takeOver(row, row.nextModel), ...more }), now);
    return true;
  });
}

/** The next model could not be loaded: the present one stays. False: that switch is no longer under way. */
export function dropSwitch(ctx: Ctx, id: string, modelId: string | null, why: string): boolean {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const row = current(tx, id);
    if (!row?.nextModel || row.nextModel.modelId !== modelId) return false;
    const error = `The switch to ${nameOf(row.nextModel)} failed, and ${nameOf(row)} stays: ${why}`;
    const more = { nextModel: null, error, queueReason: null, attempts: 0, nextAttemptAt: null, updatedAt: now };
    const changed = update(tx, row, more);
    emitChange(tx, "deployment.switch_failed", { row: changed, now }, { model: row.nextModel.model, error });
    return true;
  });
}

const update = (tx: Tx, { id }: DeploymentRow, set: Patch): DeploymentRow =>
  tx.update(deployments).set(set).where(eq(deployments.id, id)).returning().get();
