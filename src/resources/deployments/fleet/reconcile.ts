/**
 * Brings what runs in line with the rows: starts what should run, ends what should not, asks for proofs of life.
 * Everything is decided from the rows and the living processes, so a lost wake-up costs a second, never a deployment.
 */
import { notInArray } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import * as gpu from "../../gpu/service.ts";
import { desiredReplicas, isParkable, mayPark, type Traffic } from "../policy.ts";
import { type DeploymentRow, deployments } from "../table.ts";
import { allLive, inflightOf, type Live, liveOf, type Replica, readyOf, startingOf, turnAway } from "./fleet.ts";
import { endAll, keepToBudget, park } from "./halt.ts";
import { payerOf } from "./hosts.ts";
import { launch } from "./launch.ts";
import * as moves from "./moves.ts";
import { usableParts } from "./parts.ts";
import { prove, reapHung, replicaLost, retire, unqueue } from "./replica.ts";
import { keepSpare } from "./spare.ts";

/** Once, at the start: nothing runs yet, whatever the rows say. */
export function begin(ctx: Ctx) {
  gpu.clear(ctx);
  moves.recover(ctx);
  gpu.onFreed(ctx, () => ctx.wake("deployments.reconcile"));
  gpu.registerKind(ctx, "deployment", {
    idle: () => idleHolders(ctx),
    evict: (holder, why) => giveWay(ctx, holder, why),
  });
}

const CLOSING_MS = 5_000; // requests that are being answered may end well

/** Rejects the requests that wait for a replica, and aborts those that take longer than `signal` allows. */
export async function close(ctx: Ctx, signal: AbortSignal) {
  const closing = new AppError("shutting_down", "The server is shutting down", { retryAfterSeconds: 5 });
  moves.keepAllAccounts(ctx);
  for (const live of allLive(ctx)) turnAway(live, closing);
  const flying = () => allLive(ctx).flatMap(({ flights }) => [...flights]);
  const until = ctx.clock.now() + CLOSING_MS;
  while (flying().length > 0 && ctx.clock.now() < until && !signal.aborted) await ctx.clock.sleep(50, signal);
  for (const flight of flying()) flight.abort(closing);
}

export async function reconcile(ctx: Ctx): Promise<void> {
  const rows = ctx.db
    .select()
    .from(deployments)
    .where(notInArray(deployments.status, ["stopped", "failed"]))
    .all();
  for (const row of rows) {
    try {
      drive(ctx, row);
    } catch (error) {
      ctx.log.error("a deployment could not be driven", { deployment: row.id, error }); // its siblings go on
    }
  }
  const sleeps = (row: DeploymentRow) => row.parked || (row.waking && liveOf(ctx, row.id).replicas.size === 0);
  const sleeper = ctx.config.serving.standby ? rows.find(sleeps) : undefined;
  standBy(ctx, sleeper && (liveOf(ctx, sleeper.id).cards ?? (sleeper.gpuType === "cpu" ? [] : undefined)));
  const active = new Set(rows.map((row) => row.id));
  for (const live of allLive(ctx)) if (!active.has(live.id)) endAll(ctx, live, "the deployment is over");
}

/** A convenience: its trouble is nobody else's. */
function standBy(ctx: Ctx, cards: readonly string[] | undefined) {
  try {
    keepSpare(ctx, cards);
  } catch (error) {
    ctx.log.warn("no process stands by", { error });
  }
}

function drive(ctx: Ctx, row: DeploymentRow) {
  const live = liveOf(ctx, row.id);
  if (row.parked) return endAll(ctx, live, "parked");
  const traffic = trafficOf(ctx, row, live);
  if (mayPark(row, traffic)) return park(ctx, live, "idle");
  if (keepToBudget(ctx, row, live)) return;
  moves.keepAccount(ctx, row, readyOf(live).length);
  for (const replica of live.replicas) {
    reapHung(ctx, replica);
    prove(ctx, replica).catch((error) => ctx.log.error("a health check broke", { deployment: row.id, error }));
  }
  scale(ctx, row, live, desiredReplicas(row, traffic));
}

/** Only a replica to come needs the model's file: one that runs has it open. */
function scale(ctx: Ctx, row: DeploymentRow, live: Live, want: number) {
  const running = [...readyOf(live), ...startingOf(live)];
  const have = running.length + live.launching;
  const due = Math.max(row.nextAttemptAt ?? 0, live.growAt) <= ctx.clock.now();
  if (have >= want) unqueue(ctx, live);
  if (have < want && live.launching === 0 && due) {
    const parts = usableParts(ctx, row);
    if ("waits" in parts) return moves.waits(ctx, row, parts.reason);
    if ("never" in parts) return replicaLost(ctx, live, parts.reason, false);
    launch(ctx, row, parts.ready).catch((error) =>
      ctx.log.error("a replica could not be launched", { deployment: row.id, error }),
    );
  } else if (have > want) {
    const spare = running.find((replica) => replica.inflight === 0 && replica.state === "ready");
    if (spare) void retire(ctx, spare, "fewer replicas are needed");
  }
}

export function trafficOf(ctx: Ctx, row: DeploymentRow, live: Live): Traffic {
  const ready = readyOf(live);
  return {
    inflight: inflightOf(live),
    parallel: ready[0]?.parallel ?? row.parallel ?? ctx.config.serving.parallel,
    idleMs: ctx.clock.now() - live.usedAt,
    ready: ready.length,
  };
}

function isIdle(ctx: Ctx, live: Live): boolean {
  const row = moves.current(ctx.db, live.id);
  return row !== undefined && isParkable(row) && inflightOf(live) === 0;
}

/** Whoever goes with this one: all who sit there, where the model is counted in its lease. */
const goWith = (replica: Replica): Live[] =>
  payerOf(replica.host) === replica
    ? [...replica.host.users.values()]
    : [...replica.host.users].flatMap(([each, live]) => (each === replica ? [live] : []));

function idleHolders(ctx: Ctx) {
  return allLive(ctx)
    .flatMap(readyOf)
    .map((replica) => ({ holder: replica.holder, lives: goWith(replica) }))
    .filter(({ lives }) => lives.every((live) => isIdle(ctx, live)))
    .map(({ holder, lives }) => ({ holder, since: Math.max(...lives.map(({ usedAt }) => usedAt)) }));
}

/** Asked to make room: all its replicas go, since what is parked holds nothing. */
async function giveWay(ctx: Ctx, holder: string, why: string) {
  const replica = allLive(ctx)
    .flatMap((live) => [...live.replicas])
    .find((each) => each.holder === holder);
  const lives = replica ? goWith(replica) : [];
  if (lives.every((live) => isIdle(ctx, live))) await Promise.all(lives.map((live) => park(ctx, live, why)));
}

/** Anew with other settings: what runs finishes its requests first, what still loads begins again. */
export function reload(ctx: Ctx, row: DeploymentRow) {
  const live = liveOf(ctx, row.id);
  for (const replica of startingOf(live)) void retire(ctx, replica, "settings changed");
  if (row.parked || row.status !== "serving") return;
  const old = readyOf(live);
  moves.move(ctx, row.id, "restart");
  for (const replica of old) {
    replica.state = "leaving";
    void drained(ctx, replica).then(() => retire(ctx, replica, "settings changed"));
  }
}

const DRAIN_MS = 60_000;

async function drained(ctx: Ctx, replica: Replica) {
  const until = ctx.clock.now() + DRAIN_MS;
  while (replica.inflight > 0 && ctx.clock.now() < until) await ctx.clock.sleep(50);
}
