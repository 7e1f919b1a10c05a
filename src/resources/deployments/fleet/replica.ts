/** One replica: a place in a process that owns the model, what the process tells, and how it ends. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import type { Exit } from "../../../platform/workers/types.ts";
import { FAILURES, type FromServing } from "../../../workers/protocol.ts";
import * as gpu from "../../gpu/service.ts";
import { type Host, type Live, letGo, type Replica, readyOf, turnAway } from "./fleet.ts";
import * as hosts from "./hosts.ts";
import * as moves from "./moves.ts";

export function handleMessage(ctx: Ctx, host: Host, message: FromServing) {
  if (message.type === "loading") {
    for (const replica of host.users.keys())
      if (replica.state === "starting") {
        replica.stage = message.stage;
        replica.progress = message.progress;
      }
  } else if (message.type === "served") {
    host.pendingUsage.get(message.request)?.(message);
  } else if (message.type === "loaded") {
    loaded(ctx, host, message);
  } else if (message.type === "attached" || message.type === "unattached") {
    const [replica, live] = [...host.users].find(([{ adapter }]) => adapter?.name === message.name) ?? [];
    if (!replica || !live) return; // it has left meanwhile
    if (message.type === "attached") serve(ctx, live, replica);
    else {
      void retire(ctx, replica, "its adapter does not fit");
      replicaLost(ctx, live, withoutPaths(ctx, message.error), false);
    }
  }
}

function loaded(ctx: Ctx, host: Host, told: Extract<FromServing, { type: "loaded" }>) {
  host.loaded = true;
  host.bytes = told.memory_bytes;
  host.parallel = told.parallel;
  const payer = hosts.payerOf(host);
  if (payer) hosts.account(ctx, payer);
  for (const [replica, live] of host.users) if (replica.state === "starting") attachOrServe(ctx, live, replica);
}

/** The model is loaded: its adapter comes next, if it has one. */
export function attachOrServe(ctx: Ctx, live: Live, replica: Replica) {
  if (replica.adapter === null) serve(ctx, live, replica);
  else void attach(ctx, live, replica, replica.adapter);
}

async function attach(ctx: Ctx, live: Live, replica: Replica, { name, path }: NonNullable<Replica["adapter"]>) {
  const { worker } = replica.host;
  try {
    worker.send({ type: "attach", name, path: worker.link(path) ?? (await worker.bring(path)) });
  } catch (error) {
    void retire(ctx, replica, "its adapter cannot be read");
    replicaLost(ctx, live, withoutPaths(ctx, error instanceof Error ? error.message : String(error)), true);
  }
}

function serve(ctx: Ctx, live: Live, replica: Replica) {
  if (replica.state !== "starting") return;
  hosts.account(ctx, replica);
  replica.becomeReady(ctx.clock.now());
  live.usedAt = ctx.clock.now();
  moves.serve(ctx, live.id);
  letGo(live);
}

export function handleExit(ctx: Ctx, host: Host, exit: Exit) {
  const tail = withoutPaths(ctx, exit.tail.trim());
  const retry = FAILURES[exit.kind as keyof typeof FAILURES]?.retry ?? true;
  const error = tail === "" ? exit.message : `${exit.message}\n${tail}`;
  hosts.close(ctx, host);
  for (const report of host.pendingUsage.values()) report(undefined);
  for (const [replica, live] of host.users) {
    const expected = replica.state === "leaving" || exit.kind === "stopped";
    live.replicas.delete(replica);
    gpu.release(ctx, replica.holder);
    if (!expected && !ctx.closing.aborted) replicaLost(ctx, live, error, retry);
  }
  ctx.wake("deployments.reconcile");
}

const GIVEN = /models\/\.given\/\w+\/\d+\//g; // a link's place; the name of the file stays

/** Where files lie is no caller's business. */
const withoutPaths = (ctx: Ctx, text: string) => text.replaceAll(`${ctx.config.data_dir}/`, "").replaceAll(GIVEN, "");

const GROW_AGAIN_MS = 30_000;

/** A replica is lost or cannot be had. While another one serves, the deployment does not notice. */
export function replicaLost(ctx: Ctx, live: Live, error: string, canRetry: boolean) {
  ctx.log.warn("a replica was lost", { deployment: live.id, error });
  if (readyOf(live).length > 0) {
    live.growAt = ctx.clock.now() + GROW_AGAIN_MS;
    return;
  }
  const verdict = moves.lose(ctx, live.id, error, canRetry);
  const [line] = error.split("\n", 1);
  if (verdict === "doze")
    turnAway(live, new AppError("no_capacity", `It did not wake: ${line}`, { retryAfterSeconds: 5 }));
  if (verdict === "fail") turnAway(live, new AppError("worker_failed", `The deployment failed: ${line}`));
  ctx.wake("deployments.reconcile");
}

/** Leaves the queue for memory, if it stood in it. */
export function unqueue(ctx: Ctx, live: Live) {
  if (live.queuedAs !== undefined) gpu.release(ctx, live.queuedAs);
  live.queuedAs = undefined;
}

/** Ends a replica on purpose. What it still works on is cut off when its time is over. The last one takes the process along. */
export function retire(ctx: Ctx, replica: Replica, reason: string): Promise<unknown> {
  const { host } = replica;
  replica.state = "leaving";
  if (!host.users.has(replica)) return Promise.resolve(); // it has left already
  if (host.users.size > 1 && !host.ending) return Promise.resolve(hosts.leave(ctx, replica));
  host.ending = true;
  return host.worker.stop(reason);
}

/** A proof of life: the worker decodes a token, now. One that serves requests, anybody's, has given it already. */
export async function prove(ctx: Ctx, replica: Replica) {
  const { health_interval_ms: everyMs, health_timeout_ms: patienceMs } = ctx.config.serving;
  const { host } = replica;
  const known = (each: Replica) => each.probing || ctx.clock.now() - each.provedAt < everyMs;
  if (replica.state !== "ready" || [...host.users.keys()].some(known)) return;
  replica.probing = true;
  const sick = await probe(replica, patienceMs);
  replica.probing = false;
  if (sick === undefined) replica.provedAt = ctx.clock.now();
  else if (!host.ending) processLost(ctx, host, `The health check failed: ${sick}`);
}

/** All who sit there have lost it. */
function processLost(ctx: Ctx, host: Host, error: string) {
  const lost = [...host.users].filter(([{ state }]) => state !== "leaving");
  host.ending = true;
  for (const replica of host.users.keys()) replica.state = "leaving";
  void host.worker.stop("failed its health check");
  for (const [, live] of lost) replicaLost(ctx, live, error, true);
}

async function probe(replica: Replica, patienceMs: number): Promise<string | undefined> {
  try {
    const answer = await fetch("http://worker/health", {
      unix: replica.host.worker.socketPath,
      signal: AbortSignal.timeout(patienceMs),
    });
    return answer.ok ? undefined : (await answer.text()).slice(0, 500);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** A load that hangs is ended; what it was is told by its exit. */
export function reapHung(ctx: Ctx, replica: Replica) {
  if (replica.state === "starting" && ctx.clock.now() > replica.loadUntil)
    process.kill(replica.host.worker.pid, "SIGKILL");
}
