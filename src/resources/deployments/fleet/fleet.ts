/**
 * What runs: the replicas of each deployment and the requests that wait for one. All of it dies with the process;
 * the rows say what should be, and reconcile.ts brings the two together.
 */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { oncePer } from "../../../lib/once_per.ts";
import type { Db } from "../../../platform/db/db.ts";
import type { FromServing, STAGES } from "../../../workers/protocol.ts";
import type { Load } from "../schema.ts";
import type { DeploymentRow } from "../table.ts";
import type { ServingWorker } from "./spare.ts";

export type Usage = Extract<FromServing, { type: "served" }>;

/** A process with a model in it, and the replicas that sit there: of one deployment, or of several with adapters. */
export type Host = {
  /** What is loaded, for whom and how (parts.ts). */
  readonly key: string;
  readonly worker: ServingWorker;
  readonly cards: readonly string[];
  /** Oldest first. */
  readonly users: Map<Replica, Live>;
  /** Requests whose usage the worker has yet to tell; undefined when it died first. */
  readonly untold: Map<string, (usage: Usage | undefined) => void>;
  /** Of the model: as estimated, then as measured. */
  bytes: number;
  parallel: number;
  loaded: boolean;
  /** Its end is on its way: nobody joins. */
  ending: boolean;
};

export type Replica = {
  /** In the memory ledger: the deployment's id and a number. */
  readonly holder: string;
  readonly host: Host;
  /** What its requests use beside the model. */
  readonly adapter: { name: string; path: string } | null;
  readonly adapterBytes: number;
  state: "starting" | "ready" | "leaving";
  stage: (typeof STAGES)[number];
  progress: number;
  parallel: number;
  inflight: number;
  /** A load that lasts longer is hung. */
  loadUntil: number;
  /** When it last showed that it decodes. */
  provedAt: number;
  probing: boolean;
};

type Held = { resolve: (replica: Replica) => void; reject: (error: unknown) => void };

export type Live = {
  readonly id: string;
  readonly replicas: Set<Replica>;
  readonly held: Set<Held>;
  /** One for each request on its way; aborting it breaks the request off. */
  readonly flights: Set<AbortController>;
  /** Leases asked for, workers not yet spawned. */
  launching: number;
  ordinal: number;
  /** The holder that waits for memory. */
  queuedAs: string | undefined;
  /** When a request last began or ended. */
  usedAt: number;
  /** The GPUs of its last replica; undefined: it had none yet. */
  cards: readonly string[] | undefined;
  /** A further replica could not be had while others serve: not before this. */
  growAt: number;
  /** Since then its API key is out of budget. */
  overBudgetSince: number | undefined;
};

const fleetOf = oncePer((_db: Db) => new Map<string, Live>());

export function liveOf(ctx: Ctx, id: string): Live {
  const fleet = fleetOf(ctx.db);
  const known = fleet.get(id);
  if (known) return known;
  const counters = {
    launching: 0,
    ordinal: 0,
    queuedAs: undefined,
    cards: undefined,
    usedAt: ctx.clock.now(),
    growAt: 0,
    overBudgetSince: undefined,
  };
  const live: Live = { id, replicas: new Set(), held: new Set(), flights: new Set(), ...counters };
  fleet.set(id, live);
  return live;
}

export const allLive = (ctx: Ctx): Live[] => [...fleetOf(ctx.db).values()];

export const readyOf = (live: Live) => [...live.replicas].filter((replica) => replica.state === "ready");
export const startingOf = (live: Live) => [...live.replicas].filter((replica) => replica.state === "starting");
export const inflightOf = (live: Live) =>
  [...live.replicas].reduce((sum, replica) => sum + replica.inflight, live.held.size);

/** The one with the least to do. */
export function choose(live: Live): Replica | undefined {
  let best: Replica | undefined;
  for (const replica of live.replicas)
    if (replica.state === "ready" && (!best || replica.inflight < best.inflight)) best = replica;
  return best;
}

/** Waits for a replica: until one is ready, the patience is over, or the client has left. Throws when it is full. */
export function hold(ctx: Ctx, row: DeploymentRow, signal: AbortSignal): Promise<Replica> {
  const live = liveOf(ctx, row.id);
  if (live.held.size >= row.maxHeldRequests)
    throw new AppError("rate_limited", `${live.held.size} requests wait for ${row.name} already: try again soon`, {
      retryAfterSeconds: 5,
    });
  const { promise, resolve, reject } = Promise.withResolvers<Replica>();
  const held = { resolve, reject };
  const over = new AbortController();
  /** Out of the queue at once: whoever is let go from it counts as at work. */
  const giveUp = (error: unknown) => {
    live.held.delete(held);
    reject(error);
  };
  const leave = () => giveUp(signal.reason);
  live.held.add(held);
  if (signal.aborted) leave();
  signal.addEventListener("abort", leave, { once: true });
  void ctx.clock.sleep(row.wakeTimeoutSeconds * 1000, over.signal).then(() => {
    if (!over.signal.aborted) giveUp(stillWaking(row, seenLoad(row, live)));
  });
  return promise.finally(() => {
    over.abort();
    signal.removeEventListener("abort", leave);
  });
}

function stillWaking(row: DeploymentRow, load: Load): AppError {
  const why = load.reason ?? `${load.stage} ${Math.round(load.progress * 100)} %`;
  return new AppError(
    "deployment_waking",
    `${row.name} did not wake within ${row.wakeTimeoutSeconds} seconds (${why}): try again, or raise wake_timeout_seconds`,
    { retryAfterSeconds: 5 },
  );
}

/** A replica is ready: everybody who waits gets one. */
export function letGo(live: Live) {
  for (const held of [...live.held]) {
    const replica = choose(live);
    if (!replica) return;
    live.held.delete(held);
    replica.inflight++; // counted here, so that the next one sees it
    held.resolve(replica);
  }
}

export function turnAway(live: Live, error: AppError) {
  for (const held of [...live.held]) {
    live.held.delete(held);
    held.reject(error);
  }
}

/** How far it is, for the record and for those who wait. */
export function seenLoad(row: DeploymentRow, live: Live): Load {
  if (row.status === "serving") return { stage: "ready", progress: 1, reason: null };
  const [first] = startingOf(live);
  if (first) return { stage: first.stage, progress: first.progress, reason: null };
  return { stage: "queued", progress: 0, reason: row.queueReason };
}
