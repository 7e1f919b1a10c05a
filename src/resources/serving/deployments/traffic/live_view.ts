/** A deployment as it is in this moment: its replicas with their memory, and the adapters in them. */
import type { Ctx } from "../../../../context.ts";
import { isoTime } from "../../../../lib/time.ts";
import * as models from "../../models/service.ts";
import type { ModelRow } from "../../models/table.ts";
import { adaptersOf } from "../chat/loras.ts";
import { inflightOf, type Live, type Lora, peekLive, type Replica } from "../fleet/fleet.ts";
import { payerOf } from "../fleet/hosts.ts";
import { limitOf } from "../prefixes/room.ts";
import { find as findStore } from "../prefixes/store.ts";
import type { DeploymentRow } from "../table.ts";
import type { DeploymentLive } from "./schema.ts";

export function liveView(ctx: Ctx, row: DeploymentRow): DeploymentLive {
  const live = peekLive(ctx, row.id);
  return {
    object: "deployment_live",
    deployment_id: row.id,
    open_requests: inflightOf(live),
    waiting_requests: live.held.size,
    replicas: [...live.replicas].map(presentReplica),
    prefix_cache: presentPrefixes(ctx, row, live),
    adapters: adapters(ctx, row, live),
  };
}

function presentReplica(replica: Replica): DeploymentLive["replicas"][number] {
  const { holder, host, state, stage, progress, inflight, parallel, adapterBytes } = replica;
  const others = new Set(host.users.values());
  return {
    id: holder,
    state,
    stage,
    progress,
    open_requests: inflight,
    sequences: parallel,
    devices: [...host.cards],
    model_bytes: payerOf(host) === replica ? host.bytes : 0,
    adapter_bytes: adapterBytes,
    shared_with: others.size - 1,
  };
}

function presentPrefixes(ctx: Ctx, { workspaceId }: DeploymentRow, live: Live): DeploymentLive["prefix_cache"] {
  const rooms = new Set([...live.replicas].map(({ host }) => host.prefixes));
  return {
    bytes: findStore(ctx, workspaceId)?.bytes ?? 0,
    limit_bytes: limitOf(ctx, workspaceId),
    read_tokens: [...rooms].reduce((sum, room) => sum + (room?.readTokens ?? 0), 0),
  };
}

type Adapter = DeploymentLive["adapters"][number];

/** Adapters that could be used stand behind those that are loaded. */
function adapters(ctx: Ctx, row: DeploymentRow, live: Live): Adapter[] {
  const loaded = loadedIn(live);
  const known = adaptersOf(ctx, row);
  const missing = [...loaded.keys()].filter((id) => !known.some((model) => model.id === id));
  const others = missing.flatMap((id) => models.find(ctx, row.workspaceId, id) ?? []);
  return [...others, ...known]
    .map((model) => presentAdapter(ctx, model, loaded.get(model.id) ?? []))
    .sort((a, b) => b.loaded_in - a.loaded_in);
}

/** Model id of the adapter → its copies. The own adapter of a replica has no entry of a request: it is used by all. */
function loadedIn({ replicas }: Live): Map<string, (Lora | Replica)[]> {
  const loaded = new Map<string, (Lora | Replica)[]>();
  const add = (id: string, copy: Lora | Replica) => void loaded.set(id, [...(loaded.get(id) ?? []), copy]);
  for (const replica of replicas) {
    if (replica.adapter && replica.state !== "starting") add(replica.adapter.modelId, replica);
    for (const lora of replica.host.loras.values()) if (lora.modelId !== null) add(lora.modelId, lora);
  }
  return loaded;
}

function presentAdapter(ctx: Ctx, model: ModelRow, copies: readonly (Lora | Replica)[]): Adapter {
  const ageMs = ({ usedAt }: Lora) => ctx.clock.steady() - usedAt;
  const loras = copies.filter((copy): copy is Lora => "usedAt" in copy);
  const newest = loras.length === 0 ? null : ctx.clock.now() - Math.min(...loras.map(ageMs));
  return {
    model_id: model.id,
    name: model.name,
    base_model: model.baseModel,
    bytes: model.shape?.weight_bytes ?? model.sizeBytes ?? 0,
    loaded_in: copies.length,
    open_requests: loras.reduce((sum, { users }) => sum + users, 0),
    last_used_at: newest === null ? null : isoTime(newest),
  };
}
