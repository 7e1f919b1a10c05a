/** The composition root: config → context → parts, and the reverse on shutdown. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Ctx } from "./context.ts";
import { UsageError } from "./lib/errors.ts";
import { formatListen } from "./lib/net/listen.ts";
import { VERSION } from "./lib/version.ts";
import { groups } from "./native/bundle/embedded.ts";
import { removeOtherVersions } from "./native/bundle/extract.ts";
import { forbidCoreDumps } from "./native/libc.ts";
import { serviceManager } from "./native/service_manager.ts";
import { PARTS, type Running } from "./parts.ts";
import { type Clock, systemClock } from "./platform/clock.ts";
import { loadClouds } from "./platform/config/cloud.ts";
import { ambientEnv, type Config } from "./platform/config/config.ts";
import { acquireDataLock, type DataLock, isHeld } from "./platform/db/data_lock.ts";
import { closeDb, type Db, durable, openDb } from "./platform/db/db.ts";
import { isDamage, storageError } from "./platform/db/errors.ts";
import { checkSchema, migrate, requireCurrentSchema } from "./platform/db/migrate.ts";
import { someSealed } from "./platform/db/sealed.ts";
import { readEveryTable } from "./platform/db/sound.ts";
import { createLog, type Log } from "./platform/log.ts";
import type { Loop } from "./platform/loop.ts";
import { guardedDial } from "./platform/network/http_client.ts";
import { loadPricing } from "./platform/pricing.ts";
import { openSecretBox } from "./platform/secrets.ts";
import { createShutdown, FAILED_START, type Shutdown } from "./platform/shutdown.ts";
import { openStorage } from "./platform/storage/open.ts";
import { compiled } from "./platform/workers/self.ts";
import { createSupervisor, type Supervisor } from "./platform/workers/supervisor.ts";
import { type Listener, socketPathOf } from "./ports.ts";
import { authenticate } from "./resources/access/api_keys/authenticate.ts";
import { authenticateSession } from "./resources/access/browser_sessions/authenticate.ts";
import * as setup from "./resources/access/setup/service.ts";
import * as gpu from "./resources/machines/gpu/service.ts";
import { applyKept } from "./resources/server/settings/service.ts";
import { authenticate as authenticateRollout } from "./resources/serving/rollouts/service.ts";
import { createConfinement } from "./sandbox/confinement/confine.ts";
import { hurryEnd } from "./sandbox/confinement/hurry.ts";
import { createRewardPool } from "./sandbox/reward/pool.ts";
import type { LoopName } from "./schedules.ts";
import { newState } from "./state.ts";

const canUseGpus = groups["llama-cuda"] !== undefined;

type Options = { clock?: Clock; log?: Log };

export type RunningServer = {
  ctx: Ctx;
  url: string;
  /** The port that has detection alone. */
  detectUrl: string | undefined;
  /** Present until the first API key is made. */
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
    const db = openDatabase(config, lock, log);
    shutdown.add("database", () => flushAndClose(db));
    const running = openContext(config, db, log, clock);
    const { ctx } = running;
    if (compiled) removeOtherVersions(config.data_dir);
    if (!canUseGpus) gpu.useProbe(ctx, async () => []); // without the library a GPU is of no use
    const { setupToken } = setup.prepare(ctx);
    for (const { name, begin, close } of PARTS) {
      if (close) shutdown.add(name, (signal) => close(running, signal));
      await begin?.(running);
    }
    const [server, second] = running.listeners as [Listener, Listener?];
    const url = server.url.origin;
    const detectUrl = config.detect.port < 0 ? undefined : second?.url.origin;
    const listen = formatListen({ hostname: server.hostname ?? "127.0.0.1", port: server.port ?? 0 });
    lock.announce(listen, socketPathOf(config));
    log.info("ready", { url, detect_url: detectUrl, version: VERSION, data_dir: config.data_dir });
    tellServiceManager(shutdown);
    const done = Promise.withResolvers<number>();
    shutdown.handleSignals(done.resolve);
    return {
      ctx,
      url,
      detectUrl,
      setup:
        setupToken === undefined ? undefined : { url: `${config.http.public_url || url}/setup?token=${setupToken}` },
      stopped: done.promise,
      async stop(reason) {
        const report = await shutdown.run(reason);
        done.resolve(report.clean ? 0 : 1);
        return report.clean ? 0 : 1;
      },
    };
  } catch (error) {
    await shutdown.run(FAILED_START);
    throw explained(error, config.data_dir);
  }
}

const SIGNS_OF_LIFE = 3; // in the time of the watchdog: one may come late

/** Under systemd. The signs of life come from the event loop, so systemd restarts a server whose loop stands still. */
function tellServiceManager(shutdown: Shutdown) {
  const manager = serviceManager(ambientEnv());
  if (manager === undefined) return;
  const { send, watchdogMs } = manager;
  send("READY=1");
  const life = watchdogMs && setInterval(() => send("WATCHDOG=1"), watchdogMs / SIGNS_OF_LIFE);
  shutdown.add("service_manager", () => {
    clearInterval(life);
    send("STOPPING=1");
  });
}

/** The database for a command. Without a running server beside it, it is migrated first. `alone`: refuse beside a server. */
export async function openOffline(
  config: Config,
  { alone = false, ...options }: Options & { alone?: boolean } = {},
): Promise<{ ctx: Ctx; close: () => Promise<void> }> {
  const held = !alone && isHeld(config.data_dir).held;
  const lock = held ? undefined : acquireDataLock(config.data_dir, { version: VERSION });
  try {
    const log = options.log ?? createLog(config.log);
    const db = openDatabase(config, lock, log);
    const { ctx } = openContext(config, db, log, options.clock ?? systemClock);
    const close = () => flushAndClose(db).finally(() => lock?.release());
    return { ctx, close };
  } catch (error) {
    lock?.release();
    throw explained(error, config.data_dir);
  }
}

const flushAndClose = (db: Db) => durable(db).finally(() => closeDb(db));

/** Only the holder of the lock migrates: otherwise a server of another version may use this database. */
function openDatabase(config: Config, lock: DataLock | undefined, log: Log): Db {
  const db = openDb({
    path: join(config.data_dir, "verk.db"),
    busyTimeoutMs: config.db.busy_timeout_ms,
    checkpointPages: config.db.wal_checkpoint_pages,
    cacheMib: config.db.cache_mib,
  });
  try {
    if (lock) {
      migrate(db, join(config.data_dir, "backups"));
      const fault = checkSchema(db);
      if (fault) log.warn(`In the database, ${fault.detail}`, { fix: fault.fix });
    } else requireCurrentSchema(db);
    readEveryTable(db);
    return db;
  } catch (error) {
    closeDb(db);
    throw error;
  }
}

/** The server, the commands and the tests all take their context from here. */
export function openContext(config: Config, db: Db, log: Log, clock: Clock): Running {
  const loops = new Map<LoopName, Loop>();
  const closing = new AbortController();
  const socketDir = join(realpathSync(config.data_dir), "run"); // one name for each folder: orphans are found by it
  mkdirSync(socketDir, { recursive: true, mode: 0o700 });
  applyKept({ config, db, log });
  const state = newState({ config, clock });
  const ctx: Ctx = {
    config,
    pricing: loadPricing(config.billing.pricing_file),
    clouds: loadClouds(config),
    db,
    clock,
    log,
    secrets: openSecretBox({ file: config.secrets.master_key_file, sealed: () => someSealed(db.$client) }),
    storage: openStorage(config, (error) => log.error("stored content is damaged", { error })),
    supervisor: supervisorOf(config, {
      log,
      clock,
      socketDir,
      givenDir: join(config.data_dir, "models", ".given"), // models are hard-linked into it, not copied
    }),
    rewards: createRewardPool({ settings: config.sandbox, dataDir: config.data_dir }),
    authenticate: (key) => authenticate({ db, clock, state }, key, (hash) => authenticateRollout({ db, clock }, hash)),
    authenticateSession: (token) => authenticateSession({ db, clock, state }, token),
    wake: (loop) => loops.get(loop)?.wake(),
    closing: closing.signal,
    dial: guardedDial(config.network, log),
    state,
  };
  return { ctx, loops, closing, listeners: [] };
}

type SupervisorParts = { log: Log; clock: Clock; socketDir: string; givenDir?: string };

function supervisorOf(config: Config, parts: SupervisorParts): Supervisor {
  return createSupervisor({
    ...parts,
    confine: createConfinement({ dataDir: config.data_dir, require: config.sandbox.require }),
    hurryEnd,
    env: ambientEnv(),
    ...config.workers,
  });
}

/** Workers of a command. A server that starts meanwhile does not end them, because their folder is another. */
export async function withWorkers<T>(config: Config, body: (supervisor: Supervisor) => Promise<T>): Promise<T> {
  const socketDir = mkdtempSync(join(tmpdir(), "verk-"));
  const log = createLog({ ...config.log, level: "error" });
  const supervisor = supervisorOf(config, { log, clock: systemClock, socketDir });
  try {
    return await body(supervisor);
  } finally {
    await supervisor.stopAll("the command is over");
    rmSync(socketDir, { recursive: true, force: true });
  }
}

/** The operator can fix trouble with the disk, so its message has one line and no stack. */
export function explained(error: unknown, dir: string): unknown {
  // Exit code 2: a restart does not help. Exit code 1 for a full disk: systemd tries again, until there is space.
  if (isDamage(error))
    return new UsageError(
      `The database ${join(dir, "verk.db")} is damaged: run \`verk doctor\`, then restore a backup with \`verk backup restore\``,
      2,
      { cause: error },
    );
  const explained = storageError(error);
  return explained === error ? error : new UsageError(`${(explained as Error).message} (${dir})`, 1, { cause: error });
}
