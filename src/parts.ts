/**
 * The parts of a running server. They begin in the order of this table and close in the reverse order; `why` says what
 * the place of a part depends on. The server and the tests use the same table.
 */
import type { Ctx } from "./context.ts";
import { loops } from "./loops.ts";
import { type Db, durable, generationOf, watchWrites } from "./platform/db/db.ts";
import { noteTrouble } from "./platform/db/trouble.ts";
import { removeLeftovers } from "./platform/leftovers.ts";
import { type Loop, type LoopSpec, startLoop } from "./platform/loop.ts";
import { beginTurns } from "./platform/turn_report.ts";
import { type Listener, openPorts, reserveDescriptors, stopListening } from "./ports.ts";
import { recordUses } from "./resources/access/api_keys/authenticate.ts";
import { recordUses as recordSessionUses } from "./resources/access/browser_sessions/authenticate.ts";
import { closeAll as closeDatasets } from "./resources/data/datasets/stream/files.ts";
import { begin as beginDatasets } from "./resources/data/datasets/stream/sweep.ts";
import { begin as beginClouds, close as closeClouds } from "./resources/machines/clouds/reconcile.ts";
import { begin as beginBilling } from "./resources/money/billing/service.ts";
import { begin as beginClock } from "./resources/server/system/clock.ts";
import {
  begin as beginDeployments,
  close as closeDeployments,
} from "./resources/serving/deployments/fleet/reconcile.ts";
import { registerBuiltin } from "./resources/serving/models/builtin.ts";
import { close as closeTrackers } from "./resources/training/tracker/live.ts";
import {
  begin as beginTrainingJobs,
  close as closeTrainingJobs,
} from "./resources/training/training_jobs/running/reconcile.ts";
import { store as storeCounters } from "./resources/watching/metrics/store.ts";
import { flush as flushTraces } from "./resources/watching/traces/flush.ts";
import { begin as beginWebhooks } from "./resources/watching/webhooks/delivery/fan_out.ts";
import { close as closeWebhooks } from "./resources/watching/webhooks/delivery/live.ts";
import type { LoopName } from "./schedules.ts";

export type Running = {
  readonly ctx: Ctx;
  readonly loops: Map<LoopName, Loop>;
  /** Aborts `ctx.closing`. */
  readonly closing: AbortController;
  /** The first one listens for everything. */
  readonly listeners: Listener[];
};

type Part = {
  readonly name: string;
  readonly why: string;
  readonly begin?: (running: Running) => unknown;
  /** `signal` aborts when half of the part's time is spent. */
  readonly close?: (running: Running, signal: AbortSignal) => unknown;
};

const TABLE = [
  {
    name: "counters",
    why: "closes last: the other parts count while they close",
    close: ({ ctx }) => storeCounters(ctx),
  },
  {
    name: "traces",
    why: "closes after the requests and jobs that it records",
    close: ({ ctx }) => flushTraces(ctx),
  },
  {
    name: "rows",
    why: "closes after the workers, which read the files",
    close: ({ ctx }) => closeDatasets(ctx),
  },
  {
    name: "workers",
    why: "begins first: it ends processes that an earlier server left, which may still write",
    begin: ({ ctx }) => ctx.supervisor.sweep(),
    close: ({ ctx }) => ctx.supervisor.stopAll("shutdown"),
  },
  {
    name: "leftovers",
    why: "begins after the workers, when nothing writes temporary files any more",
    begin: ({ ctx }) => removeLeftovers(ctx.config.data_dir),
  },
  {
    name: "clock",
    why: "begins before anything is deleted by its age",
    begin: ({ ctx }) => beginClock(ctx),
  },
  {
    name: "rewards",
    why: "closes after the training jobs, which score until they have saved",
    close: ({ ctx }) => ctx.rewards.close(),
  },
  {
    name: "billing",
    why: "begins before the jobs and deployments that it charges",
    begin: ({ ctx }) => beginBilling(ctx),
  },
  {
    name: "datasets",
    why: "begins before jobs read the files that it cleans up",
    begin: ({ ctx }) => beginDatasets(ctx),
  },
  {
    name: "models",
    why: "begins before http: the built-in model can be named by the first request",
    begin: ({ ctx }) => registerBuiltin(ctx),
  },
  {
    name: "deployments",
    why: "begins before the training jobs: it empties the memory ledger",
    begin: ({ ctx }) => beginDeployments(ctx),
  },
  {
    name: "clouds",
    why: "begins before the jobs that wait for machines, and closes after they have let go of theirs",
    begin: ({ ctx }) => beginClouds(ctx),
    close: ({ ctx }, signal) => closeClouds(ctx, signal),
  },
  {
    name: "training_jobs",
    why: "closes before the workers, so that a trainer can save",
    begin: ({ ctx }) => beginTrainingJobs(ctx),
    close: ({ ctx }, signal) => closeTrainingJobs(ctx, signal),
  },
  {
    name: "webhooks",
    why: "begins before the loops, so that no event is missed",
    begin: ({ ctx }) => beginWebhooks(ctx),
    close: ({ ctx }, signal) => closeWebhooks(ctx, signal),
  },
  {
    name: "tracker",
    why: "closes after the loops, which would send again",
    close: ({ ctx }) => closeTrackers(ctx),
  },
  {
    name: "loops",
    why: "begins when all of their work can run",
    begin: (running) => beginLoops(running),
    close: ({ ctx, loops }) => closeLoops(ctx, loops),
  },
  {
    name: "descriptors",
    why: "begins before http: connections must leave some for files and workers",
    begin: ({ ctx }) => reserveDescriptors(ctx),
  },
  {
    name: "http",
    why: "begins when every request can be served, and closes before what requests use",
    begin: ({ ctx, listeners }) => openPorts(ctx, listeners),
    close: ({ listeners }, signal) => stopListening(listeners, signal),
  },
  {
    name: "chats",
    why: "closes before http, which waits for the requests that are held here",
    close: ({ ctx }, signal) => closeDeployments(ctx, signal),
  },
  {
    name: "closing",
    why: "closes first: streams end themselves, and no request is admitted any more",
    close: ({ closing }) => closing.abort(),
  },
  {
    name: "turns",
    why: "begins last: the start of a server is one long turn, and so may be its end",
    begin: ({ ctx }) => beginTurns(ctx),
    close: ({ ctx }) => ctx.state.turns.stop(),
  },
] as const satisfies Part[];

export type PartName = (typeof TABLE)[number]["name"];
export const PARTS: readonly (Part & { name: PartName })[] = TABLE;

async function beginLoops({ ctx, loops: running }: Running) {
  await durable(ctx.db);
  const { db, log, clock } = ctx;
  for (const spec of loops(ctx)) running.set(spec.name, startLoop(durably(db, spec), { log, clock }));
}

async function closeLoops(ctx: Ctx, running: ReadonlyMap<LoopName, Loop>) {
  await Promise.all([...running.values()].map((loop) => loop.stop()));
  recordUses(ctx);
  recordSessionUses(ctx);
}

/** A tick ends when what it wrote is on the disk. A lost commit is a failed tick, which is tried again. */
const durably = (db: Db, spec: LoopSpec): LoopSpec => ({
  ...spec,
  async tick(signal) {
    const before = generationOf(db);
    const written = watchWrites(db);
    try {
      await spec.tick(signal);
    } catch (error) {
      noteTrouble(db, error); // a damaged database is often found by a loop first
      throw error;
    }
    if (generationOf(db) !== before) await written(); // without a write of its own it need not wait for others
  },
});
