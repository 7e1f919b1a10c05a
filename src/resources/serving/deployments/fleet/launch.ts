/** Starts a replica: takes a lease of memory, then joins a process that has the model or starts one. */
import { availableParallelism } from "node:os";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import type { ToServing } from "../../../../workers/protocol.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import * as models from "../../models/service.ts";
import { loadDeadlineMs } from "../policy.ts";
import { PrefixRoom } from "../prefixes/room.ts";
import { type OpenStore, openStore } from "../prefixes/store.ts";
import { onShortage, refOf, roleOf } from "../switch.ts";
import type { DeploymentRow, ModelRef } from "../table.ts";
import { addLine } from "../traffic/log.ts";
import { decoderFor } from "./decoder_choice.ts";
import { type Host, type Live, liveOf, Replica, readyOf } from "./fleet.ts";
import * as hosts from "./hosts.ts";
import * as moves from "./moves.ts";
import { adapterBytes, bytesOf, cacheIdentity, fileIdentity, keyOf, type Parts, sizeOf } from "./parts.ts";
import { attachOrServe, DRAIN_MS, handleExit, handleMessage, replicaLost, retireGently, unqueue } from "./replica.ts";
import { obtain } from "./spare.ts";

const WAITS_FOR_OTHER = "waits for another deployment that is about to load the same model";

/** Returns once the replica has its process, or cannot have one now. It may serve only later. */
export async function launch(ctx: Ctx, row: DeploymentRow, parts: Parts): Promise<void> {
  const live = liveOf(ctx, row.id);
  const guest = { key: keyOf(ctx, row, parts), live, bare: parts.adapter === null, modelId: row.modelId };
  const host = hosts.hostFor(ctx, guest);
  if (host === "coming") return moves.setQueueReason(ctx, row, WAITS_FOR_OTHER); // the next round of reconcile finds it
  live.launching++;
  const withdraw = hosts.announce(ctx, guest);
  try {
    if (host === undefined || !(await join(ctx, row, host, parts))) await load(ctx, row, parts);
  } finally {
    live.launching--;
    withdraw();
  }
}

/** Joins the process of others. False: there is no memory for it. */
async function join(ctx: Ctx, row: DeploymentRow, host: Host, parts: Parts): Promise<boolean> {
  const beside = hosts.payerOf(host)?.holder;
  if (beside === undefined) return false;
  const live = liveOf(ctx, row.id);
  const adapter = adapterOf(ctx, parts);
  const bytes = adapterBytes(parts);
  const request = requestFor(live, row, bytes);
  const grant = await gpu.acquire(ctx, { ...request, beside, mayEvict: false });
  const { holder } = request;
  if (grant.status !== "granted") {
    if (live.queuedAs === undefined) gpu.release(ctx, holder);
    return false;
  }
  live.queuedAs = undefined;
  const fresh = moves.current(ctx.db, row.id);
  if (!fresh || !isWanted(ctx, fresh, row) || !hosts.isOpen(ctx, host)) {
    gpu.release(ctx, holder);
    ctx.wake("deployments.reconcile");
    return true;
  }
  if (fresh.status === "queued") moves.move(ctx, row.id, "place", { queueReason: null });
  const all = (parts.base.sizeBytes ?? 0) + bytes; // the model may still be loading
  const loadUntil = ctx.clock.steady() + loadDeadlineMs(all);
  addReplica(ctx, live, host, { holder, model: refOf(row), adapter, bytes, loadUntil });
  return true;
}

/** Starts a process for the replica alone. */
async function load(ctx: Ctx, row: DeploymentRow, parts: Parts): Promise<void> {
  const live = liveOf(ctx, row.id);
  const adapter = adapterOf(ctx, parts);
  const bytes = adapterBytes(parts);
  const request = requestFor(live, row, bytesOf(ctx, row, parts));
  const { holder } = request;
  try {
    const grant = await gpu.acquire(ctx, request);
    live.queuedAs = grant.status === "waiting" ? holder : undefined;
    const model = refOf(row);
    const lost = { canRetry: false, code: "no_capacity", model } as const;
    if (grant.status === "never") return replicaLost(ctx, live, { ...lost, error: `No capacity: ${grant.reason}` });
    const fresh = moves.current(ctx.db, row.id);
    if (!fresh || !isWanted(ctx, fresh, row)) {
      live.queuedAs = undefined;
      return gpu.release(ctx, holder);
    }
    if (grant.status === "waiting") {
      moves.setQueueReason(ctx, fresh, grant.reason);
      if (roleOf(fresh, row.modelId) === "next")
        makeWay(ctx, live, request, { ...lost, error: `No capacity: it ${grant.reason}` });
      return;
    }
    if (fresh.status === "queued") moves.move(ctx, row.id, "place", { queueReason: null });
    const size = sizeOf(ctx, row, parts.base);
    const cards = grant.devices.length > 0 ? grant.deviceIds : [];
    const store = openStore(ctx, row.workspaceId);
    const host = start(ctx, cards, {
      store: store && { ...store, workspaceId: row.workspaceId },
      key: keyOf(ctx, row, parts),
      bytes: request.bytes - bytes,
      load: {
        type: "load",
        data_dir: ctx.config.data_dir,
        model_path: models.pathOf(ctx, parts.base),
        ...(parts.projector ? { projector_path: parts.projector.path } : {}),
        model_id: parts.base.id,
        context_length: size.contextLength,
        parallel: size.parallel,
        kv_type: size.kvType,
        threads: ctx.config.serving.threads || availableParallelism(),
        gpus: grant.devices.map((_, i) => i), // indices among the GPUs that the process can see
        hurry: row.minReplicas === 0,
        decoder: await decoderFor(ctx, { sha256: parts.base.sha256, parallel: size.parallel, cards }),
        batch_invariant: ctx.config.serving.batch_invariant,
        repack: ctx.config.serving.repack,
        guesses: ctx.config.serving.guesses,
        ...(store ? { prefixes: { ...store, identity: cacheIdentity(parts.base, size) } } : {}),
      },
    });
    const loadUntil = ctx.clock.steady() + loadDeadlineMs(parts.base.sizeBytes ?? 0);
    addReplica(ctx, live, host, { holder, model, adapter, bytes, loadUntil });
  } catch (error) {
    gpu.release(ctx, holder);
    if (!(error instanceof AppError && error.code === "sandbox_unavailable")) throw error;
    replicaLost(ctx, live, { error: error.message, canRetry: false, model: refOf(row) }); // a retry would fail too
  }
}

/** The next model does not fit beside the present one. */
function makeWay(ctx: Ctx, live: Live, request: gpu.Request, lost: Parameters<typeof replicaLost>[2]) {
  const isAlone = ({ host }: Replica) => [...host.users.values()].every((user) => user === live);
  const holders = [...live.replicas].filter(isAlone).map(({ holder }) => holder);
  const ready = readyOf(live);
  const step = onShortage({ fits: gpu.fitsWithout(ctx, request, holders), isAnswering: ready.length > 0 });
  if (step === "drop") {
    unqueue(ctx, live);
    replicaLost(ctx, live, lost);
  } else if (step === "replace" && moves.move(ctx, live.id, "restart"))
    retireGently(ctx, ready, { reason: "the next model needs its memory", withinMs: DRAIN_MS });
}

const requestFor = (live: Live, row: DeploymentRow, bytes: number): gpu.Request => ({
  holder: live.queuedAs ?? `${row.id}/${++live.ordinal}`, // a waiter keeps its name, which is its position in the queue
  kind: "deployment",
  workspaceId: row.workspaceId,
  bytes,
  gpuType: row.gpuType,
  gpuCount: row.gpuCount,
  priority: 0,
  pinned: row.pinned,
  mayEvict: true,
  ...(row.maxReplicas > 1 ? { spreads: row.id } : {}),
});

/** The deployment may have been stopped, parked or changed while the memory was acquired. */
export const isWanted = (ctx: Ctx, now: DeploymentRow, then: DeploymentRow) =>
  !ctx.closing.aborted &&
  !now.parked &&
  now.status !== "stopped" &&
  now.status !== "failed" &&
  roleOf(now, then.modelId) !== "neither" &&
  now.contextLength === then.contextLength &&
  now.parallel === then.parallel &&
  now.kvType === then.kvType;

type LoadMessage = Extract<ToServing, { type: "load" }>;
type Start = {
  key: string;
  bytes: number;
  load: LoadMessage;
  store: (OpenStore & { workspaceId: string }) | undefined;
};

function start(ctx: Ctx, cards: readonly string[], { key, bytes, load, store }: Start): Host {
  const { projector_path: projector } = load;
  const files = [load.model_path, ...(projector === undefined ? [] : [projector])];
  const { worker, paths } = obtain(
    ctx,
    { cards, files, folder: store?.dir },
    {
      onMessage: (message) => handleMessage(ctx, host, message),
      onExit: (exit) => handleExit(ctx, host, exit),
    },
  );
  const state = { parallel: load.parallel, loaded: false, ending: false, canSee: false };
  const host: Host = {
    key,
    worker,
    cards,
    bytes,
    users: new Map(),
    pendingUsage: new Map(),
    loras: new Map(),
    prefixes: store && new PrefixRoom(ctx, store.workspaceId, (text) => warn(ctx, host, text)),
    ...state,
  };
  hosts.open(ctx, host);
  worker.ready.then(
    () => {
      const [model_path = load.model_path, projector_path] = paths;
      worker.send({ ...load, model_path, ...(projector_path === undefined ? {} : { projector_path }) });
    },
    () => {}, // onExit handles it
  );
  return host;
}

function warn(ctx: Ctx, host: Host, text: string) {
  ctx.log.warn(text, { workspace: host.prefixes?.workspaceId });
  for (const live of new Set(host.users.values())) addLine(ctx, live.id, "warn", text);
}

type AdapterFile = { path: string; modelId: string; identity: string };

export const adapterOf = (ctx: Ctx, { adapter }: Parts): AdapterFile | null =>
  adapter && { path: models.pathOf(ctx, adapter), modelId: adapter.id, identity: fileIdentity(adapter) };

/** `bytes`: of its adapter. */
type ReplicaSpec = { holder: string; model: ModelRef; adapter: AdapterFile | null; bytes: number; loadUntil: number };

export function addReplica(ctx: Ctx, live: Live, host: Host, { adapter: file, bytes, ...spec }: ReplicaSpec) {
  const adapter = file && { name: spec.holder, ...file };
  const replica = new Replica({ ...spec, host, adapter, adapterBytes: bytes, now: ctx.clock.steady() });
  live.cards = host.cards;
  live.replicas.add(replica);
  host.users.set(replica, live);
  if (host.loaded) attachOrServe(ctx, live, replica);
}
