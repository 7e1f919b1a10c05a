/** Starts a replica on the node of a region. The server leases no memory for it: the devices are the node's. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Ctx } from "../../../../context.ts";
import { RemoteWorker } from "../../../../platform/providers/remote_worker.ts";
import { LEASE_MS, type ReplicaPlan } from "../../../../platform/providers/replicas.ts";
import { modelInput } from "../../../../platform/providers/staging.ts";
import type { InputFile } from "../../../../platform/providers/types.ts";
import { FromServing, type ToServing } from "../../../../workers/protocol.ts";
import { isGone, waitForMachine } from "../../../machines/clouds/service.ts";
import { providerOf } from "../../../machines/regions/provider.ts";
import * as regions from "../../../machines/regions/service.ts";
import { isCloud } from "../../../machines/regions/table.ts";
import * as models from "../../models/service.ts";
import { type Host, type Live, liveOf } from "../fleet/fleet.ts";
import * as hosts from "../fleet/hosts.ts";
import { adapterOf, addReplica, isWanted } from "../fleet/launch.ts";
import * as moves from "../fleet/moves.ts";
import { adapterBytes, bytesOf, keyOf, type Parts, sizeOf } from "../fleet/parts.ts";
import { handleExit, handleMessage, replicaLost } from "../fleet/replica.ts";
import { loadDeadlineMs } from "../policy.ts";
import { refOf } from "../switch.ts";
import type { DeploymentRow } from "../table.ts";

/** Returns once the replica has its worker. The copy of the model and the start follow. */
export async function launchRemote(ctx: Ctx, row: DeploymentRow, parts: Parts): Promise<void> {
  const live = liveOf(ctx, row.id);
  if (remotesOf(live).some(({ name }) => name === undefined)) return; // one start at a time, so that each has its own name
  const region = regions.find(ctx, row.workspaceId, row.region);
  const waits = region && waitForMachine(ctx, region, row.apiKeyId);
  if (waits !== undefined) return moves.setQueueReason(ctx, row, waits);
  live.launching++;
  try {
    const node = region && providerOf(ctx, region).replicas;
    const model = refOf(row);
    if (!node)
      return replicaLost(ctx, live, { error: "The region of the deployment was deleted", canRetry: false, model });
    const file = await modelInput(models.pathOf(ctx, parts.base), parts.base.sha256);
    const fresh = moves.current(ctx.db, row.id);
    if (!fresh || !isWanted(ctx, fresh, row)) return;
    if (fresh.status === "queued") moves.move(ctx, row.id, "place", { queueReason: null });
    const plan = planOf(ctx, row, parts, file);
    const loadMs = loadDeadlineMs(file.bytes);
    const worker: RemoteWorker<FromServing, ToServing> = new RemoteWorker<FromServing, ToServing>({
      node,
      plan,
      incoming: FromServing,
      closing: ctx.closing,
      clock: ctx.clock,
      log: ctx.log,
      socketDir: join(ctx.config.data_dir, "run"),
      inputs: async () => [file],
      keep: () => remotesOf(live).flatMap((each) => (each === worker || each.name === undefined ? [] : [each.name])),
      onMessage: (message) => handleMessage(ctx, host, message),
      onExit: (exit) => handleExit(ctx, host, exit),
      onReached: () => {
        for (const replica of host.users.keys()) replica.loadUntil = ctx.clock.steady() + loadMs;
      },
    });
    const host: Host = {
      key: keyOf(ctx, row, parts),
      worker,
      remote: worker,
      cards: [],
      bytes: bytesOf(ctx, row, parts),
      users: new Map(),
      pendingUsage: new Map(),
      loras: new Map(),
      parallel: sizeOf(ctx, row, parts.base).parallel,
      loaded: false,
      canSee: false,
      ending: false,
    };
    hosts.open(ctx, host);
    addReplica(ctx, live, host, {
      holder: `${row.id}/${++live.ordinal}`,
      model,
      adapter: adapterOf(ctx, parts),
      bytes: adapterBytes(parts),
      loadUntil: row.provider === "slurm" ? Number.POSITIVE_INFINITY : ctx.clock.steady() + loadMs, // a queue has no end
    });
  } finally {
    live.launching--;
  }
}

/** Replicas on a machine of a cloud that is gone end: no link leads there any more. */
export function endGone(ctx: Ctx, row: DeploymentRow, live: Live) {
  const remotes = remotesOf(live);
  if (remotes.length === 0 || !isCloud(row.provider)) return;
  const region = regions.find(ctx, row.workspaceId, row.region);
  if (region && !isGone(region)) return;
  for (const remote of remotes) remote.abandon("the machine of the deployment is gone");
}

const remotesOf = (live: Live) => [...live.replicas].flatMap(({ host }) => host.remote ?? []);

/** Equal for equal deployments except for the name: a node compares it with the plans of the replicas that it has. */
function planOf(ctx: Ctx, row: DeploymentRow, parts: Parts, file: InputFile): ReplicaPlan {
  const size = sizeOf(ctx, row, parts.base);
  const load: ToServing = {
    type: "load",
    model_path: file.path,
    model_id: parts.base.id,
    context_length: size.contextLength,
    parallel: size.parallel,
    kv_type: size.kvType,
    hurry: row.minReplicas === 0,
    decoder: parts.adapter === null ? ctx.config.serving.decoder : "library",
    batch_invariant: ctx.config.serving.batch_invariant,
    repack: ctx.config.serving.repack,
    guesses: ctx.config.serving.guesses,
    data_dir: "",
    threads: 1,
    gpus: [], // the node knows its own
  };
  return {
    name: `${row.id}-${randomBytes(4).toString("hex")}`,
    load,
    gpus: row.gpuType === "cpu" ? 0 : row.gpuCount,
    gpu_type: row.gpuType,
    settings: { "sandbox.require": ctx.config.sandbox.require },
    lease_ms: LEASE_MS,
  };
}
