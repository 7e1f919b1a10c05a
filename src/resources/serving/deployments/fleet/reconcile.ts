/**
 * Brings the processes in line with the rows: starts replicas, ends them, and checks their health. Each round decides
 * from the rows and the live processes alone, so a lost wake-up costs a second, never a deployment.
 */
import { inArray } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { ACTIVE } from "../../../../lib/deployment_status.ts";
import { AppError } from "../../../../lib/errors.ts";
import { prepared } from "../../../../platform/db/db.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import * as billing from "../../../money/billing/service.ts";
import { desiredReplicas, isParkable, isRestartDue, keepsFloor, mayPark, type Traffic } from "../policy.ts";
import { endGone, launchRemote } from "../remote/launch.ts";
import { afterSwitch, refOf, roleOf } from "../switch.ts";
import { type DeploymentRow, deployments, LOCAL } from "../table.ts";
import { allLive, forget, inflightOf, type Live, liveOf, type Replica, readyOf, startingOf } from "./fleet.ts";
import { endAll, keepToBudget, park } from "./halt.ts";
import { killHung, prove } from "./health.ts";
import { rejectHeld } from "./held_requests.ts";
import { payerOf } from "./hosts.ts";
import { launch } from "./launch.ts";
import * as moves from "./moves.ts";
import { type Parts, usableParts } from "./parts.ts";
import { keepQueueTime } from "./queue_time.ts";
import { DRAIN_MS, replicaLost, retire, retireGently, unqueue } from "./replica.ts";
import { keepSpare, registerStandby, wantedFor } from "./spare.ts";

/** Called once, at the start: no replica runs yet, whatever the rows say. */
export function begin(ctx: Ctx) {
  gpu.clear(ctx);
  moves.recover(ctx);
  gpu.onFreed(ctx, () => ctx.wake("deployments.reconcile"));
  gpu.registerKind(ctx, "deployment", {
    idle: () => idleHolders(ctx),
    evict: (holder, why) => makeRoom(ctx, holder, why),
  });
  registerStandby(ctx);
}

const CLOSING_MS = 5_000; // requests that are being answered may end well

/** Rejects the requests that wait for a replica, and aborts those that take longer than `signal` allows. */
export async function close(ctx: Ctx, signal: AbortSignal) {
  const closing = new AppError("shutting_down", "The server is shutting down", { retryAfterSeconds: 5 });
  moves.keepAllAccounts(ctx);
  for (const live of allLive(ctx)) rejectHeld(live, closing);
  const flying = () => allLive(ctx).flatMap(({ flights }) => [...flights]);
  const until = ctx.clock.now() + CLOSING_MS;
  while (flying().length > 0 && ctx.clock.now() < until && !signal.aborted) await ctx.clock.sleep(50, signal);
  for (const flight of flying()) flight.abort(closing);
}

const activeRows = prepared((db) => db.select().from(deployments).where(inArray(deployments.status, ACTIVE)).prepare());

export async function reconcile(ctx: Ctx): Promise<void> {
  const rows = activeRows(ctx.db).all();
  for (const row of rows) {
    try {
      reconcileOne(ctx, row);
    } catch (error) {
      ctx.log.error("a deployment could not be reconciled", { deployment: row.id, error }); // the others go on
    }
  }
  const isAsleep = (row: DeploymentRow) =>
    row.region === LOCAL && (row.parked || (row.waking && liveOf(ctx, row.id).replicas.size === 0));
  keepStandby(ctx, ctx.config.serving.standby ? rows.filter(isAsleep) : []);
  const active = new Set(rows.map((row) => row.id));
  for (const live of allLive(ctx)) {
    if (active.has(live.id)) continue;
    void endAll(ctx, live, "the deployment has ended");
    forget(ctx, live);
  }
}

/** The standby process only saves time: its failure must not stop the round. */
function keepStandby(ctx: Ctx, sleepers: readonly DeploymentRow[]) {
  try {
    keepSpare(ctx, wantedFor(ctx, sleepers));
  } catch (error) {
    ctx.log.warn("the standby process could not start", { error });
  }
}

function reconcileOne(ctx: Ctx, row: DeploymentRow) {
  const live = liveOf(ctx, row.id);
  if (row.parked) return keepsFloor(row) ? wakeForFloor(ctx, row) : endAll(ctx, live, "parked");
  endGone(ctx, row, live);
  const traffic = trafficOf(ctx, row, live);
  if (mayPark(row, traffic)) return park(ctx, live, "idle");
  if (keepToBudget(ctx, row, live) || keepQueueTime(ctx, row, live)) return;
  moves.keepAccount(ctx, row, readyOf(live).length);
  for (const replica of live.replicas) {
    killHung(ctx, replica);
    prove(ctx, replica).catch((error) => ctx.log.error("a health check failed to run", { deployment: row.id, error }));
  }
  scale(ctx, row, live, desiredReplicas(row, traffic));
}

/** A wake has failed, or the server was restarted during one: the deployment gets its replicas back. */
function wakeForFloor(ctx: Ctx, row: DeploymentRow) {
  if (!isRestartDue(row.nextAttemptAt, ctx.clock.now())) return;
  const shortage = row.costPerHourMicros ? billing.shortageOf(ctx, { ...row, keyId: row.apiKeyId }) : null;
  if (shortage !== null) return void moves.postponeWake(ctx, row, `It stays parked: the workspace is ${shortage}`);
  moves.wake(ctx, row.id, row.apiKeyId, row.attempts);
  ctx.wake("deployments.reconcile");
}

/** Only a new replica needs the model's file: a running one has it open. */
function scale(ctx: Ctx, row: DeploymentRow, live: Live, want: number) {
  if (row.nextModel !== null && bringNext(ctx, row, live)) return;
  const running = [...readyOf(live), ...startingOf(live)];
  const have = running.length + live.launching;
  const now = ctx.clock.now();
  const due = isRestartDue(row.nextAttemptAt, now) && isRestartDue(live.growAt, now);
  if (have >= want) unqueue(ctx, live);
  if (have < want && live.launching === 0 && due) {
    const parts = usableParts(ctx, row);
    if ("waits" in parts) return moves.setQueueReason(ctx, row, parts.reason);
    if ("never" in parts) return replicaLost(ctx, live, { error: parts.reason, canRetry: false, model: refOf(row) });
    start(ctx, row, parts.ready);
  } else if (have > want) {
    const spare = running.find((replica) => replica.inflight === 0 && replica.state === "ready");
    if (spare) void retire(ctx, spare, "fewer replicas are needed");
  }
}

/** True: the next model is on its way. False: its file is not here yet, so the present model is scaled as usual. */
function bringNext(ctx: Ctx, row: DeploymentRow, live: Live): boolean {
  const next = afterSwitch(row);
  const isComing = startingOf(live).some(({ model }) => model.modelId === next.modelId);
  if (isComing || live.launching > 0) return true;
  const parts = usableParts(ctx, next);
  if ("ready" in parts) start(ctx, next, parts.ready);
  else if ("waits" in parts) moves.setQueueReason(ctx, row, parts.reason);
  else replicaLost(ctx, live, { error: parts.reason, canRetry: false, model: refOf(next) });
  return "ready" in parts;
}

function start(ctx: Ctx, row: DeploymentRow, parts: Parts) {
  const begin = row.region === LOCAL ? launch : launchRemote;
  begin(ctx, row, parts).catch((error) =>
    ctx.log.error("a replica could not be launched", { deployment: row.id, error }),
  );
}

/** Ends the replicas that load a model which the deployment no longer wants. */
export function retireStrays(ctx: Ctx, row: DeploymentRow) {
  for (const replica of startingOf(liveOf(ctx, row.id)))
    if (roleOf(row, replica.model.modelId) === "neither") void retire(ctx, replica, "the deployment has another model");
}

export function trafficOf(ctx: Ctx, row: DeploymentRow, live: Live): Traffic {
  const ready = readyOf(live);
  return {
    inflight: inflightOf(live),
    parallel: ready[0]?.parallel ?? row.parallel ?? ctx.config.serving.parallel,
    idleMs: ctx.clock.steady() - live.usedAt,
    ready: ready.length,
  };
}

function isIdle(ctx: Ctx, live: Live): boolean {
  const row = moves.current(ctx.db, live.id);
  return row !== undefined && isParkable(row) && inflightOf(live) === 0;
}

/** The deployments that lose a replica with this one: all in its process, if its lease includes the model. */
const evictedWith = (replica: Replica): Live[] =>
  payerOf(replica.host) === replica
    ? [...replica.host.users.values()]
    : [...replica.host.users].flatMap(([each, live]) => (each === replica ? [live] : []));

function idleHolders(ctx: Ctx) {
  return allLive(ctx)
    .flatMap(readyOf)
    .filter(({ host }) => !host.remote) // it holds no memory of this machine
    .map((replica) => ({ holder: replica.holder, lives: evictedWith(replica) }))
    .filter(({ lives }) => lives.every((live) => isIdle(ctx, live)))
    .map(({ holder, lives }) => ({ holder, since: Math.max(...lives.map(({ usedAt }) => usedAt)) }));
}

/** Parks the deployment to make room: then all its replicas end. */
async function makeRoom(ctx: Ctx, holder: string, why: string) {
  const replica = allLive(ctx)
    .flatMap((live) => [...live.replicas])
    .find((each) => each.holder === holder);
  const lives = replica ? evictedWith(replica) : [];
  if (lives.every((live) => isIdle(ctx, live))) await Promise.all(lives.map((live) => park(ctx, live, why)));
}

/** Loads the model with new settings. Replicas that serve finish their requests first; those that load start again. */
export function reload(ctx: Ctx, row: DeploymentRow) {
  const live = liveOf(ctx, row.id);
  for (const replica of startingOf(live)) void retire(ctx, replica, "settings changed");
  if (row.parked || row.status !== "serving") return;
  const old = readyOf(live);
  moves.move(ctx, row.id, "restart");
  retireGently(ctx, old, { reason: "settings changed", withinMs: DRAIN_MS });
}
