/** The composition root: config → context → http → loops, and the reverse on shutdown. */
import { mkdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import type { Ctx } from "./context.ts";
import { type ErrorAnswer, errorResponse, toAppError } from "./http/answer/errors.ts";
import { serviceErrorResponse } from "./http/answer/service_errors.ts";
import { listensFor } from "./http/connection.ts";
import { createHandler, type Handler } from "./http/server.ts";
import { UsageError } from "./lib/errors.ts";
import { formatListen, type Listen, parseListen } from "./lib/net/listen.ts";
import { VERSION } from "./lib/version.ts";
import { loops } from "./loops.ts";
import { groups } from "./native/bundle/embedded.ts";
import { removeOtherVersions } from "./native/bundle/extract.ts";
import { forbidCoreDumps } from "./native/libc.ts";
import { type Clock, systemClock } from "./platform/clock.ts";
import { ambientEnv, type Config } from "./platform/config/config.ts";
import { acquireDataLock, type DataLock, isHeld } from "./platform/db/data_lock.ts";
import { closeDb, type Db, durable, generationOf, openDb, watchWrites } from "./platform/db/db.ts";
import { storageError } from "./platform/db/errors.ts";
import { migrate, requireCurrentSchema } from "./platform/db/migrate.ts";
import { someSealed } from "./platform/db/sealed.ts";
import { createLog, type Log } from "./platform/log.ts";
import { inTurns, type Loop, type LoopSpec, startLoop } from "./platform/loop.ts";
import { guardedDial } from "./platform/network/http_client.ts";
import { loadPricing } from "./platform/pricing.ts";
import { openSecretBox } from "./platform/secrets.ts";
import { createShutdown } from "./platform/shutdown.ts";
import { openStorage } from "./platform/storage/open.ts";
import { compiled } from "./platform/workers/self.ts";
import { createSupervisor } from "./platform/workers/supervisor.ts";
import { authenticate, recordUses } from "./resources/api_keys/authenticate.ts";
import { begin as beginBilling } from "./resources/billing/service.ts";
import { closeAll as closeDatasets } from "./resources/datasets/stream/files.ts";
import { begin as beginDatasets } from "./resources/datasets/stream/sweep.ts";
import { begin as beginDeployments } from "./resources/deployments/fleet/reconcile.ts";
import * as gpu from "./resources/gpu/service.ts";
import { store as storeCounters } from "./resources/metrics/store.ts";
import * as setup from "./resources/setup/service.ts";
import { close as closeTrackers } from "./resources/tracker/live.ts";
import { begin as beginTrainingJobs, close as closeTrainingJobs } from "./resources/training_jobs/running/reconcile.ts";
import { begin as beginWebhooks } from "./resources/webhooks/delivery/fan_out.ts";
import { close as closeWebhooks } from "./resources/webhooks/delivery/live.ts";
import { mount, mountDetection } from "./routes.ts";
import { createConfinement } from "./sandbox/confinement/confine.ts";
import { createRewardPool } from "./sandbox/reward/pool.ts";
import { newState } from "./state.ts";

const canUseGpus = groups["llama-cuda"] !== undefined;

type Options = { clock?: Clock; log?: Log };
type Server = Bun.Server<undefined>;
type Opened = { ctx: Ctx; loops: Map<string, Loop>; closing: AbortController };

export type RunningServer = {
  ctx: Ctx;
  url: string;
  /** Of the port that has detection alone. */
  detectUrl: string | undefined;
  /** Present while nobody holds a key. */
  setup: { url: string } | undefined;
  /** Resolves with the exit code once stopped, by a signal or by stop(). */
  stopped: Promise<number>;
  stop: (reason: string) => Promise<number>;
};

export async function startServer(config: Config, options: Options = {}): Promise<RunningServer> {
  forbidCoreDumps();
  const log = options.log ?? createLog(config.log);
  const clock = options.clock ?? systemClock;
  const shutdown = createShutdown({ deadlineMs: config.shutdown.deadline_ms, log, clock });
  const lock = acquireDataLock(config.data_dir, { version: VERSION });
  shutdown.add("lock", () => lock.release());
  try {
    const db = openDatabase(config, lock);
    shutdown.add("database", () => flushAndClose(db));
    const opened = openContext(config, db, log, clock);
    const { ctx } = opened;
    shutdown.add("counters", () => storeCounters(ctx)); // what the steps before it count too
    shutdown.add("rows", async () => closeDatasets(ctx));
    shutdown.add("workers", () => ctx.supervisor.stopAll("shutdown"));
    shutdown.add("rewards", () => ctx.rewards.close());
    shutdown.add("training", (signal) => closeTrainingJobs(ctx, signal));
    await ctx.supervisor.sweep();
    if (compiled) removeOtherVersions(config.data_dir);
    beginBilling(ctx);
    const prepared = setup.prepare(ctx);
    if (!canUseGpus) gpu.useProbe(ctx, async () => []); // without the library a card is of no use
    await beginDatasets(ctx);
    beginDeployments(ctx);
    beginTrainingJobs(ctx); // the ledger is empty now
    beginWebhooks(ctx);
    shutdown.add("webhooks", (signal) => closeWebhooks(ctx, signal));
    shutdown.add("trackers", () => closeTrackers(ctx));
    await durable(db);
    const turn = inTurns();
    for (const spec of loops(ctx)) opened.loops.set(spec.name, startLoop(durably(db, spec), { log, clock, turn }));
    shutdown.add("loops", async () => {
      await Promise.all([...opened.loops.values()].map((loop) => loop.stop()));
      recordUses(ctx);
    });
    const servers: Server[] = [];
    shutdown.add("http", async (signal) => {
      opened.closing.abort(); // streams end themselves; what is in flight may finish
      const each = (stop: (server: Server) => Promise<void>) => Promise.all(servers.map(stop));
      signal.addEventListener("abort", () => void each((server) => server.stop(true))); // clients that stall are cut off
      await each((server) => server.stop());
    });
    for (const door of doors(ctx)) servers.push(listen(ctx, door));
    const [server, second] = servers as [Server, Server?];
    listensFor(ctx, server);
    const url = server.url.origin;
    const detectUrl = second?.url.origin;
    lock.announce(formatListen({ hostname: server.hostname ?? "127.0.0.1", port: server.port ?? 0 }));
    log.info("ready", { url, detect_url: detectUrl, version: VERSION, data_dir: config.data_dir });
    const done = Promise.withResolvers<number>();
    shutdown.handleSignals(done.resolve);
    return {
      ctx,
      url,
      detectUrl,
      setup:
        prepared.setupToken === undefined
          ? undefined
          : { url: `${config.http.public_url || url}/setup?token=${prepared.setupToken}` },
      stopped: done.promise,
      async stop(reason) {
        const report = await shutdown.run(reason);
        done.resolve(report.clean ? 0 : 1);
        return report.clean ? 0 : 1;
      },
    };
  } catch (error) {
    await shutdown.run("failed to start");
    throw explained(error, config.data_dir);
  }
}

/** A tick is over when what it wrote is on the disk; a lost commit is a failed tick, and is tried again. */
const durably = (db: Db, spec: LoopSpec): LoopSpec => ({
  ...spec,
  async tick(signal) {
    const before = generationOf(db);
    const written = watchWrites(db);
    await spec.tick(signal);
    if (generationOf(db) !== before) await written(); // or else it wrote nothing; what others did is theirs to wait for
  },
});

/** The database for a command: beside a running server, or alone, in which case it is brought up to date first. */
export async function openOffline(
  config: Config,
  options: Options = {},
): Promise<{ ctx: Ctx; close: () => Promise<void> }> {
  const held = isHeld(config.data_dir).held;
  const lock = held ? undefined : acquireDataLock(config.data_dir, { version: VERSION });
  try {
    const db = openDatabase(config, lock);
    const { ctx } = openContext(config, db, options.log ?? createLog(config.log), options.clock ?? systemClock);
    const close = () => flushAndClose(db).finally(() => lock?.release());
    return { ctx, close };
  } catch (error) {
    lock?.release();
    throw explained(error, config.data_dir);
  }
}

const flushAndClose = (db: Db) => durable(db).finally(() => closeDb(db));

/** Only the holder of the lock migrates: a server of another version may be working on this database. */
function openDatabase(config: Config, lock: DataLock | undefined): Db {
  const db = openDb({
    path: join(config.data_dir, "verk.db"),
    busyTimeoutMs: config.db.busy_timeout_ms,
    checkpointPages: config.db.wal_checkpoint_pages,
    cacheMib: config.db.cache_mib,
  });
  try {
    if (lock) migrate(db, join(config.data_dir, "backups"));
    else requireCurrentSchema(db);
    return db;
  } catch (error) {
    closeDb(db);
    throw error;
  }
}

/** The one place where a context is put together; the tests take theirs from here too. */
export function openContext(config: Config, db: Db, log: Log, clock: Clock): Opened {
  const running = new Map<string, Loop>();
  const closing = new AbortController();
  const socketDir = join(realpathSync(config.data_dir), "run"); // one name, however it was reached: orphans are known by it
  mkdirSync(socketDir, { recursive: true, mode: 0o700 });
  const state = newState({ config, clock });
  const ctx: Ctx = {
    config,
    pricing: loadPricing(config.billing.pricing_file),
    db,
    clock,
    log,
    secrets: openSecretBox({ file: config.secrets.master_key_file, sealed: () => someSealed(db.$client) }),
    storage: openStorage(config),
    supervisor: createSupervisor({
      log,
      clock,
      socketDir,
      givenDir: join(config.data_dir, "models", ".given"), // models are hard-linked there, and not copied
      confine: createConfinement({ dataDir: config.data_dir, require: config.sandbox.require }),
      env: ambientEnv(),
      ...config.workers,
    }),
    rewards: createRewardPool({ settings: config.sandbox, dataDir: config.data_dir }),
    authenticate: (key) => authenticate({ db, clock, state }, key),
    wake: (loop) => running.get(loop)?.wake(),
    closing: closing.signal,
    dial: guardedDial(config.network, log),
    state,
  };
  return { ctx, loops: running, closing };
}

const UNKNOWN_REQUEST = new Request("http://localhost/");

type Door = {
  at: Listen;
  handle: Handler;
  answers: ErrorAnswer;
  /** What chooses another port. */
  setting: string;
};

/** One for both interfaces and, where `detect.port` is set, one that has detection alone. */
function doors(ctx: Ctx): Door[] {
  const at = parseListen(ctx.config.http.listen) ?? { hostname: "127.0.0.1", port: 0 };
  const both: Door = { at, handle: createHandler(ctx, mount(ctx)), answers: errorResponse, setting: "--listen" };
  const { port } = ctx.config.detect;
  if (port < 0) return [both];
  const answers = serviceErrorResponse;
  const handle = createHandler(ctx, mountDetection(ctx), answers);
  return [both, { at: { ...at, port }, handle, answers, setting: "detect.port" }];
}

function listen(ctx: Ctx, { at, handle, answers, setting }: Door): Server {
  try {
    return Bun.serve({
      ...at,
      development: false,
      reusePort: false, // the default lets a second program share the port in silence
      idleTimeout: ctx.config.http.idle_timeout_seconds,
      maxRequestBodySize: Number.MAX_SAFE_INTEGER, // each route has its own limit and answers with the envelope
      fetch: (request) => handle(request),
      error: (error) => answers(toAppError(ctx, error, UNKNOWN_REQUEST), UNKNOWN_REQUEST),
    });
  } catch (error) {
    if ((error as { code?: unknown }).code !== "EADDRINUSE") throw error;
    throw new UsageError(`${formatListen(at)} is in use by another program: stop it or choose another with ${setting}`);
  }
}

/** Trouble with the disk at start is the operator's to mend: one line, no stack. */
function explained(error: unknown, dir: string): unknown {
  const known = storageError(error);
  return known === error ? error : new UsageError(`${(known as Error).message} (${dir})`, 1, { cause: error });
}
