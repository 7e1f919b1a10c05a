/**
 * The live side of deployments: their replicas, and the requests that wait for one. It ends with the process. The rows
 * say what should run, and reconcile.ts brings the two together.
 */
import type { Ctx } from "../../../../context.ts";
import type { AppError } from "../../../../lib/errors.ts";
import type { RemoteWorker } from "../../../../platform/providers/remote_worker.ts";
import type { FromServing, STAGES, ToServing } from "../../../../workers/protocol.ts";
import type { Flight } from "../chat/flight.ts";
import type { PrefixRoom } from "../prefixes/room.ts";
import type { Load } from "../schema.ts";
import type { DeploymentRow, ModelRef } from "../table.ts";
import type { ServingWorker } from "./spare.ts";

export type Usage = Extract<FromServing, { type: "served" }>;

/** An adapter that requests use beside the model, or several together. */
export type Lora = {
  /** In the worker. */
  readonly name: string;
  /** In the memory ledger. Null: its parts have leases. */
  readonly holder: string | null;
  readonly parts: readonly Lora[];
  /** Null: it is several adapters together. */
  readonly modelId: string | null;
  /** The worker has it. */
  readonly ready: Promise<void>;
  /** Called with the answer of the worker, and with an error when the worker ends. */
  readonly settle: (error?: string | AppError) => void;
  /** Requests, and entries of which it is a part. */
  users: number;
  usedAt: number;
};

/** A process with a model in it, and its replicas: of one deployment, or of several deployments with adapters. */
export type Host = {
  /** The model, its workspace and its settings (parts.ts). */
  readonly key: string;
  readonly worker: ServingWorker;
  /** The worker, if it runs on the node of a region. */
  readonly remote?: RemoteWorker<FromServing, ToServing>;
  readonly cards: readonly string[];
  /** Oldest first. */
  readonly users: Map<Replica, Live>;
  /** Requests whose usage the worker has yet to report; called with undefined when the worker died first. */
  readonly pendingUsage: Map<string, (usage: Usage | undefined) => void>;
  /** Adapters that requests have chosen, by file or by parts (chat/loras.ts). */
  readonly loras: Map<string, Lora>;
  /** The room of its blocks on the disk, if prompts are kept there. */
  readonly prefixes?: PrefixRoom | undefined;
  /** Memory of the model: first estimated, then measured. */
  bytes: number;
  parallel: number;
  loaded: boolean;
  /** The model reads images. */
  canSee: boolean;
  /** The process is about to end: no replica joins. */
  ending: boolean;
};

type NewReplica = {
  holder: string;
  model: ModelRef;
  host: Host;
  adapter: Replica["adapter"];
  adapterBytes: number;
  /** On the steady clock, like `now`. */
  loadUntil: number;
  now: number;
};

/** A copy of a deployment's model that answers requests. */
export class Replica {
  /** In the memory ledger: the deployment's id and a number. */
  readonly holder: string;
  readonly host: Host;
  /** The model of the deployment that it answers with: another one than the row's during a switch. */
  readonly model: ModelRef;
  /** The adapter that its requests use beside the model. */
  readonly adapter: { name: string; path: string; modelId: string; identity: string } | null;
  readonly adapterBytes: number;
  /** A load that lasts longer is hung. */
  loadUntil: number;
  state: "starting" | "ready" | "leaving" = "starting";
  stage: (typeof STAGES)[number] = "starting";
  progress = 0;
  parallel: number;
  /** The last time that it showed that it decodes, by the steady clock. */
  provedAt: number;
  probing = false;
  #inflight = 0;

  constructor({ holder, host, model, adapter, adapterBytes, loadUntil, now }: NewReplica) {
    this.holder = holder;
    this.model = model;
    this.host = host;
    this.adapter = adapter;
    this.adapterBytes = adapterBytes;
    this.loadUntil = loadUntil;
    this.parallel = host.parallel;
    this.provedAt = now;
  }

  /** Requests that were given to it and have not ended. */
  get inflight(): number {
    return this.#inflight;
  }

  /** A request is given to it. The request's flight calls `release`, once. */
  acquire(): this {
    this.#inflight++;
    return this;
  }

  release() {
    this.#inflight--;
  }

  becomeReady(now: number) {
    this.state = "ready";
    this.stage = "ready";
    this.progress = 1;
    this.parallel = this.host.parallel;
    this.provedAt = now;
  }
}

type HeldRequest = { resolve: (replica: Replica) => void; reject: (error: unknown) => void };

/** The part of a deployment that lives in this process. */
export type Live = {
  readonly id: string;
  readonly replicas: Set<Replica>;
  /** Requests that wait for a replica. */
  readonly held: Set<HeldRequest>;
  /** Requests that have not ended, the held ones included. */
  readonly flights: Set<Flight>;
  /** Background requests: how many have their turn, and those that wait for it (background.ts). */
  readonly background: { admitted: number; readonly waiting: Set<() => void> };
  /** Replicas whose memory is being acquired and that have no process yet. */
  launching: number;
  ordinal: number;
  /** The holder that waits for memory. */
  queuedAs: string | undefined;
  /** The last time that a request began or ended, on the steady clock. */
  usedAt: number;
  /** The GPUs of its last replica; undefined: it had none yet. */
  cards: readonly string[] | undefined;
  /** A further replica could not be had while others serve: the next attempt comes no earlier than this. */
  growAt: number;
  /** Since when its API key is out of budget. */
  overBudgetSince: number | undefined;
  /** Steady time from which its wait for memory is not in its row yet. */
  waitsSince: number | undefined;
};

export function liveOf(ctx: Ctx, id: string): Live {
  const { fleet } = ctx.state.deployments;
  const live = fleet.get(id) ?? blankLive(ctx, id);
  fleet.set(id, live);
  return live;
}

/** Only to look at: a deployment that has ended takes no memory because it is shown. */
export const peekLive = (ctx: Ctx, id: string): Live => ctx.state.deployments.fleet.get(id) ?? blankLive(ctx, id);

function blankLive(ctx: Ctx, id: string): Live {
  const counters = {
    launching: 0,
    ordinal: 0,
    queuedAs: undefined,
    cards: undefined,
    usedAt: ctx.clock.steady(),
    growAt: 0,
    overBudgetSince: undefined,
    waitsSince: undefined,
  };
  const background = { admitted: 0, waiting: new Set<() => void>() };
  return { id, replicas: new Set(), held: new Set(), flights: new Set(), background, ...counters };
}

/** Removes a deployment that has ended from memory, once no process and no request of it is left. */
export function forget(ctx: Ctx, live: Live) {
  const { replicas, held, flights, background, launching } = live;
  if (replicas.size + held.size + flights.size + background.waiting.size + launching === 0)
    ctx.state.deployments.fleet.delete(live.id);
}

export const allLive = (ctx: Pick<Ctx, "state">): Live[] => [...ctx.state.deployments.fleet.values()];

export const readyOf = (live: Live) => [...live.replicas].filter((replica) => replica.state === "ready");
export const startingOf = (live: Live) => [...live.replicas].filter((replica) => replica.state === "starting");
export const inflightOf = (live: Live) =>
  [...live.replicas].reduce((sum, replica) => sum + replica.inflight, live.held.size);

/** The link to its node is not cut. */
export const isReachable = ({ host }: Replica) => host.remote?.isReachable ?? true;

/** The ready replica with the fewest requests. */
export function choose(live: Live): Replica | undefined {
  let best: Replica | undefined;
  for (const replica of live.replicas)
    if (replica.state === "ready" && isReachable(replica) && (!best || replica.inflight < best.inflight))
      best = replica;
  return best;
}

/** A ready replica, acquired for one request. */
export const take = (live: Live): Replica | undefined => choose(live)?.acquire();

/** The stage of the start, for the API and for clients that wait. */
export function loadOf(row: DeploymentRow, live: Live): Load {
  if (row.status === "serving") return { stage: "ready", progress: 1, reason: null };
  const [first] = startingOf(live);
  if (first) return { stage: first.stage, progress: first.progress, reason: null };
  return { stage: "queued", progress: 0, reason: row.queueReason };
}

/** The stage of the next model's start during a switch. */
export function nextLoadOf(row: DeploymentRow, live: Live): Load {
  const coming = startingOf(live).find(({ model }) => model.modelId === row.nextModel?.modelId);
  return coming
    ? { stage: coming.stage, progress: coming.progress, reason: null }
    : { stage: "queued", progress: 0, reason: row.queueReason };
}
