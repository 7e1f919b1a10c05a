/** One replica: a lease of memory, a child process that owns the model, and what the child tells. */
import { availableParallelism } from "node:os";
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import type { Exit } from "../../platform/worker.ts";
import { FAILURES, type FromServing, type ToServing } from "../../workers/protocol.ts";
import * as gpu from "../gpu/service.ts";
import * as models from "../models/service.ts";
import type { ModelRow } from "../models/table.ts";
import { choose, type Live, letGo, liveOf, type Replica, readyOf, turnAway } from "./fleet.ts";
import * as moves from "./moves.ts";
import { loadDeadlineMs } from "./policy.ts";
import { obtain } from "./spare.ts";
import type { DeploymentRow } from "./table.ts";

/** The size of a replica: as asked for, or as configured, and never more context than the model was made for. */
export function sizeOf(ctx: Ctx, row: DeploymentRow, model: ModelRow) {
  const { context_length, parallel } = ctx.config.serving;
  const most = model.contextLength ?? context_length;
  return { contextLength: Math.min(row.contextLength ?? context_length, most), parallel: row.parallel ?? parallel };
}

/** Takes the memory and starts the process. Returns when that is done or cannot be done now, not when it serves. */
export async function launch(ctx: Ctx, row: DeploymentRow, model: ModelRow): Promise<void> {
  const live = liveOf(ctx, row.id);
  const size = sizeOf(ctx, row, model);
  const holder = live.queuedAs ?? `${row.id}/${++live.ordinal}`; // a waiter keeps its name: that is its place
  live.launching++;
  try {
    const grant = await gpu.acquire(ctx, {
      holder,
      kind: "deployment",
      workspaceId: row.workspaceId,
      bytes: models.estimate(model, size).total,
      gpuType: row.gpuType,
      gpuCount: row.gpuCount,
      priority: 0,
      pinned: row.pinned,
      mayEvict: true,
    });
    live.queuedAs = grant.status === "waiting" ? holder : undefined;
    if (grant.status === "never") return gone(ctx, live, `No capacity: ${grant.reason}`, false);
    const fresh = moves.current(ctx.db, row.id);
    if (!fresh || !isWanted(fresh, row) || ctx.closing.aborted) {
      live.queuedAs = undefined;
      return gpu.release(ctx, holder);
    }
    if (grant.status === "waiting") return moves.waits(ctx, fresh, grant.reason);
    if (fresh.status === "queued") moves.move(ctx, row.id, "place", { queueReason: null });
    const load: LoadMessage = {
      type: "load",
      data_dir: ctx.config.data_dir,
      model_path: models.pathOf(ctx, model),
      adapter_path: null,
      context_length: size.contextLength,
      parallel: size.parallel,
      threads: ctx.config.serving.threads || Math.max(1, availableParallelism() - 1),
      gpus: grant.devices.map((_, i) => i), // of those that it can see
      hurry: row.minReplicas === 0,
    };
    const loadUntil = ctx.clock.now() + loadDeadlineMs(model.sizeBytes ?? 0);
    spawn(ctx, live, { holder, load, loadUntil, cards: grant.devices.length > 0 ? grant.deviceIds : [] });
  } catch (error) {
    gpu.release(ctx, holder);
    throw error;
  } finally {
    live.launching--;
  }
}

/** While the memory was being had somebody may have stopped, parked or changed it. */
const isWanted = (now: DeploymentRow, then: DeploymentRow) =>
  !now.parked &&
  now.status !== "stopped" &&
  now.status !== "failed" &&
  now.contextLength === then.contextLength &&
  now.parallel === then.parallel;

type LoadMessage = Extract<ToServing, { type: "load" }>;
type Start = { holder: string; load: LoadMessage; loadUntil: number; cards: readonly string[] };

function spawn(ctx: Ctx, live: Live, { holder, load, loadUntil, cards }: Start) {
  const now = ctx.clock.now();
  live.cards = cards;
  const worker = obtain(ctx, cards, {
    hear: (message) => hear(ctx, live, replica, message),
    bury: (exit) => bury(ctx, live, replica, exit),
  });
  const replica: Replica = {
    holder,
    worker,
    state: "starting",
    stage: "starting",
    progress: 0,
    parallel: load.parallel,
    inflight: 0,
    loadUntil,
    provedAt: now,
    probing: false,
    untold: new Map(),
  };
  live.replicas.add(replica);
  worker.ready.then(
    () => worker.send(load),
    () => {}, // its end is told by onExit
  );
}

function hear(ctx: Ctx, live: Live, replica: Replica, message: FromServing) {
  if (message.type === "loading") {
    replica.stage = message.stage;
    replica.progress = message.progress;
  } else if (message.type === "served") {
    replica.untold.get(message.request)?.(message);
  } else if (message.type === "loaded" && replica.state === "starting") {
    gpu.correct(ctx, replica.holder, message.memory_bytes);
    replica.state = "ready";
    replica.stage = "ready";
    replica.progress = 1;
    replica.parallel = message.parallel;
    replica.provedAt = ctx.clock.now();
    live.usedAt = ctx.clock.now();
    moves.serve(ctx, live.id);
    letGo(live);
  }
}

async function bury(ctx: Ctx, live: Live, replica: Replica, exit: Exit) {
  const expected = replica.state === "leaving" || exit.kind === "stopped";
  live.replicas.delete(replica);
  for (const tell of replica.untold.values()) tell(undefined);
  gpu.release(ctx, replica.holder);
  if (!expected && !ctx.closing.aborted) {
    const tail = exit.tail.trim().replaceAll(`${ctx.config.data_dir}/`, ""); // where files lie is no caller's business
    const retry = FAILURES[exit.kind as keyof typeof FAILURES]?.retry ?? true;
    gone(ctx, live, tail === "" ? exit.message : `${exit.message}\n${tail}`, retry);
  }
  ctx.wake("deployments.reconcile");
}

const GROW_AGAIN_MS = 30_000;

/** A replica is lost or cannot be had. While another one serves, the deployment does not notice. */
export function gone(ctx: Ctx, live: Live, error: string, canRetry: boolean) {
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

/** Ends a replica on purpose. What it still works on is cut off when its time is over. */
export function retire(replica: Replica, reason: string): Promise<unknown> {
  replica.state = "leaving";
  return replica.worker.stop(reason);
}

/** A proof of life: the worker decodes a token, now. One that serves requests has given it already. */
export async function prove(ctx: Ctx, live: Live, replica: Replica) {
  const { health_interval_ms: everyMs, health_timeout_ms: patienceMs } = ctx.config.serving;
  if (replica.state !== "ready" || replica.probing || ctx.clock.now() - replica.provedAt < everyMs) return;
  replica.probing = true;
  const sick = await probe(replica, patienceMs);
  replica.probing = false;
  if (sick === undefined) replica.provedAt = ctx.clock.now();
  else if (replica.state === "ready" && live.replicas.has(replica)) {
    void retire(replica, "failed its health check");
    gone(ctx, live, `The health check failed: ${sick}`, true);
  }
}

async function probe(replica: Replica, patienceMs: number): Promise<string | undefined> {
  try {
    const answer = await fetch("http://worker/health", {
      unix: replica.worker.socketPath,
      signal: AbortSignal.timeout(patienceMs),
    });
    return answer.ok ? undefined : (await answer.text()).slice(0, 500);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** A load that hangs is ended; what it was is told by its exit. */
export function reapHung(ctx: Ctx, replica: Replica) {
  if (replica.state === "starting" && ctx.clock.now() > replica.loadUntil) process.kill(replica.worker.pid, "SIGKILL");
}

/** A replica to send a request to, counted as at work from here on. */
export function take(live: Live): Replica | undefined {
  const replica = choose(live);
  if (replica) replica.inflight++;
  return replica;
}
