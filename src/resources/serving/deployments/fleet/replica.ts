/** The life of replicas: messages from their process, their loss and their end. */
import type { Ctx } from "../../../../context.ts";
import { formatBytes } from "../../../../lib/bytes.ts";
import { errorText } from "../../../../lib/error_text.ts";
import { AppError } from "../../../../lib/errors.ts";
import { formatDuration } from "../../../../lib/time.ts";
import { MINUTE_MS } from "../../../../lib/units.ts";
import { write } from "../../../../platform/db/db.ts";
import type { Exit } from "../../../../platform/workers/types.ts";
import type { FromServing } from "../../../../workers/protocol.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import { roleOf } from "../switch.ts";
import type { ModelRef } from "../table.ts";
import { addLine } from "../traffic/log.ts";
import { admitBackground } from "./background.ts";
import { type Host, type Live, type Replica, readyOf } from "./fleet.ts";
import { admitHeld, rejectHeld } from "./held_requests.ts";
import * as hosts from "./hosts.ts";
import { explainLoss, withoutPaths } from "./loss.ts";
import * as moves from "./moves.ts";

export function handleMessage(ctx: Ctx, host: Host, message: FromServing) {
  if (message.type === "loading") {
    for (const [replica, live] of host.users)
      if (replica.state === "starting") {
        if (replica.stage !== message.stage) addLine(ctx, live.id, "info", `A replica is ${message.stage}`);
        replica.stage = message.stage;
        replica.progress = message.progress;
      }
  } else if (message.type === "served") {
    host.pendingUsage.get(message.request)?.(message);
  } else if (message.type === "prefix_room") {
    void host.prefixes?.grant(message.bytes).then((bytes) => host.worker.send({ type: "prefix_room", bytes }));
  } else if (message.type === "prefixes") {
    host.prefixes?.record(message.counts, message.problem);
  } else if (message.type === "loaded") {
    loaded(ctx, host, message);
  } else if (message.type === "attached" || message.type === "unattached") {
    const lora = [...host.loras.values()].find(({ name }) => name === message.name);
    lora?.settle(message.type === "attached" ? undefined : message.error);
    const [replica, live] = [...host.users].find(([{ adapter }]) => adapter?.name === message.name) ?? [];
    if (!replica || !live) return; // it has ended meanwhile
    if (message.type === "attached") serve(ctx, live, replica);
    else {
      void retire(ctx, replica, "its adapter does not fit the model");
      const error = withoutPaths(message.error, ctx.config.data_dir);
      replicaLost(ctx, live, { error, canRetry: false, model: replica.model });
    }
  }
}

function loaded(ctx: Ctx, host: Host, message: Extract<FromServing, { type: "loaded" }>) {
  host.loaded = true;
  host.bytes = message.memory_bytes;
  host.parallel = message.parallel;
  host.canSee = message.vision === true;
  ctx.log.info("a model is loaded", { device: message.device, decoder: message.decoder, load_ms: message.load_ms });
  const payer = hosts.payerOf(host);
  if (payer) hosts.correctLease(ctx, payer);
  const size = `${formatBytes(message.memory_bytes)}, ${message.parallel} sequences of ${message.context_length} tokens`;
  for (const [replica, live] of host.users) {
    const text = `The model is loaded on ${message.device} in ${formatDuration(message.load_ms)}: ${size}. ${message.decoder ?? ""}`;
    addLine(ctx, live.id, "info", text.trim());
    if (replica.state === "starting") attachOrServe(ctx, live, replica);
  }
}

/** The model is loaded: the adapter, if there is one, comes next. */
export function attachOrServe(ctx: Ctx, live: Live, replica: Replica) {
  if (replica.adapter === null) serve(ctx, live, replica);
  else void attach(ctx, live, replica, replica.adapter);
}

type Adapter = NonNullable<Replica["adapter"]>;

async function attach(ctx: Ctx, live: Live, replica: Replica, { name, path, modelId, identity }: Adapter) {
  const { worker } = replica.host;
  try {
    worker.send({
      type: "attach",
      name,
      path: worker.link(path) ?? (await worker.bring(path)),
      model_id: modelId,
      identity,
    });
  } catch (error) {
    void retire(ctx, replica, "its adapter cannot be read");
    const message = withoutPaths(errorText(error), ctx.config.data_dir);
    replicaLost(ctx, live, { error: message, canRetry: true, model: replica.model });
  }
}

function serve(ctx: Ctx, live: Live, replica: Replica) {
  if (replica.state !== "starting") return;
  hosts.correctLease(ctx, replica);
  const role = roleOf(moves.current(ctx.db, live.id), replica.model.modelId);
  if (role === "neither") return void retire(ctx, replica, "the deployment has another model");
  const old = role === "next" ? readyOf(live) : [];
  write(ctx.db, () => {
    if (role === "next") moves.completeSwitch(ctx, live.id, replica.model.modelId);
    moves.serve(ctx, live.id);
  });
  replica.becomeReady(ctx.clock.steady());
  live.usedAt = ctx.clock.steady();
  retireGently(ctx, old, { reason: "the deployment has another model", withinMs: SWITCH_DRAIN_MS });
  void admitHeld(live);
  admitBackground(ctx);
}

export function handleExit(ctx: Ctx, host: Host, exit: Exit) {
  const { error, canRetry } = explainLoss(exit, ctx.config.data_dir);
  hosts.close(ctx, host);
  host.prefixes?.[Symbol.dispose]();
  for (const report of host.pendingUsage.values()) report(undefined);
  for (const lora of [...host.loras.values()])
    lora.settle(new AppError("worker_failed", "The replica was lost: try again"));
  for (const [replica, live] of host.users) {
    const expected = replica.state === "leaving" || exit.kind === "stopped";
    live.replicas.delete(replica);
    gpu.release(ctx, replica.holder);
    if (!expected && !ctx.closing.aborted) replicaLost(ctx, live, { error, canRetry, model: replica.model });
  }
  ctx.wake("deployments.reconcile");
}

const GROW_AGAIN_MS = 30_000;
/** `model`: of the replica. */
type Loss = Omit<moves.Loss, "code"> & { code?: moves.Loss["code"]; model: ModelRef };

/** A replica was lost or could not start. While another one serves, the deployment goes on. */
export function replicaLost(ctx: Ctx, live: Live, { error, canRetry, model, code = "worker_failed" }: Loss) {
  ctx.log.warn("a replica was lost", { deployment: live.id, error });
  addLine(ctx, live.id, "error", `A replica was lost: ${error}`);
  if (moves.dropSwitch(ctx, live.id, model.modelId, error)) return ctx.wake("deployments.reconcile");
  if (readyOf(live).length > 0) {
    live.growAt = ctx.clock.now() + GROW_AGAIN_MS;
    return;
  }
  const verdict = moves.lose(ctx, live.id, { error, code, canRetry });
  const [line] = error.split("\n", 1);
  if (verdict === "doze")
    rejectHeld(live, new AppError("no_capacity", `The deployment did not wake: ${line}`, { retryAfterSeconds: 5 }));
  if (verdict === "fail") rejectHeld(live, new AppError(code, `The deployment failed: ${line}`));
  ctx.wake("deployments.reconcile");
}

/** Leaves the queue for memory, if it is in it. */
export function unqueue(ctx: Ctx, live: Live) {
  if (live.queuedAs !== undefined) gpu.release(ctx, live.queuedAs);
  live.queuedAs = undefined;
}

/** Ends a replica on purpose. The last one in a process ends the process, which aborts requests after its grace period. */
export function retire(ctx: Ctx, replica: Replica, reason: string): Promise<unknown> {
  const { host } = replica;
  replica.state = "leaving";
  const user = host.users.get(replica);
  if (user) addLine(ctx, user.id, "info", `A replica ends: ${reason}`);
  if (!host.users.has(replica)) return Promise.resolve(); // it has ended already
  if (host.users.size > 1 && !host.ending) return Promise.resolve(hosts.leave(ctx, replica));
  host.ending = true;
  return host.worker.stop(reason);
}

/** While the memory of the replicas is needed. */
export const DRAIN_MS = MINUTE_MS;
const SWITCH_DRAIN_MS = 10 * MINUTE_MS; // for long answers: their memory is not needed yet

/** Replicas that get no further request, and end when their present ones have ended or `withinMs` has passed. */
export function retireGently(
  ctx: Ctx,
  replicas: readonly Replica[],
  { reason, withinMs }: { reason: string; withinMs: number },
) {
  for (const replica of replicas) {
    replica.state = "leaving";
    void drain(ctx, replica, withinMs).then(() => retire(ctx, replica, reason));
  }
}

async function drain(ctx: Ctx, replica: Replica, withinMs: number) {
  const until = ctx.clock.steady() + withinMs;
  while (replica.inflight > 0 && ctx.clock.steady() < until) await ctx.clock.sleep(50);
}
