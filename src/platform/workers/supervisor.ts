/** All children of this server: started with one set of limits, and none of them left behind. */
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { isId } from "../../lib/ids.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { marks } from "./env.ts";
import { killMarked } from "./orphans.ts";
import { spawnWorker } from "./process.ts";
import type { Confine, Worker, WorkerMessage, WorkerOptions } from "./types.ts";

type Limits = "silenceMs" | "readyTimeoutMs" | "graceMs" | "tailBytes";
type OwnOptions = "log" | "clock" | "socketDir" | "givenDir" | "confine" | "hurryEnd" | "env";
export type SpawnOptions<In extends WorkerMessage> = Omit<WorkerOptions<In>, Limits | OwnOptions> &
  Partial<Pick<WorkerOptions<In>, Limits>>;

export type Supervisor = {
  /** Throws when the operating system refuses a process, or when everything is being stopped. */
  spawn: <In extends WorkerMessage, Out = unknown>(options: SpawnOptions<In>) => Worker<In, Out>;
  live: () => Worker[];
  /** Stops all, at the same time, for good. */
  stopAll: (reason: string) => Promise<void>;
  /**
   * Kills what a killed server of the same data directory left behind, and removes the folders of its workers. Only for the holder of
   * the data lock: to anyone else a living server's workers look the same. Returns how many there were.
   */
  sweep: () => Promise<number>;
};

type Deps = {
  log: Log;
  clock: Clock;
  /** A folder for each worker, with its socket. */
  socketDir: string;
  givenDir?: string;
  confine?: Confine | undefined;
  hurryEnd?: (group: number) => void;
  silence_ms: number;
  stop_grace_ms: number;
  stderr_tail_bytes: number;
  ready_timeout_ms?: number;
  /** The server's environment, of which a worker gets a few names. */
  env?: Record<string, string | undefined>;
  /** argv of the program whose workers these are, when not the running one. */
  program?: readonly string[];
};

export function createSupervisor(deps: Deps): Supervisor {
  const { log, clock, socketDir, env = {} } = deps;
  const workers = new Map<string, Worker>();
  let stopping = false;
  const limits: Pick<WorkerOptions<WorkerMessage>, Limits> = {
    silenceMs: deps.silence_ms,
    readyTimeoutMs: deps.ready_timeout_ms ?? deps.silence_ms,
    graceMs: deps.stop_grace_ms,
    tailBytes: deps.stderr_tail_bytes,
  };
  const { confine, hurryEnd, givenDir = join(socketDir, "given"), program } = deps;
  const shared = {
    log,
    clock,
    socketDir,
    givenDir,
    env,
    ...(program ? { program } : {}),
    ...(confine ? { confine } : {}),
    ...(hurryEnd ? { hurryEnd } : {}),
  };

  return {
    spawn<In extends WorkerMessage, Out>(options: SpawnOptions<In>) {
      if (stopping) throw new Error(`No new ${options.kind} worker: the server is stopping`);
      const worker = spawnWorker<In, Out>({ ...limits, ...shared, ...options });
      workers.set(worker.id, worker as unknown as Worker);
      log.info("worker started", { worker: worker.id, worker_kind: worker.kind, pid: worker.pid });
      void worker.exited.then(({ kind, message, code, signal, forced }) => {
        workers.delete(worker.id);
        const level = kind === "done" || kind === "stopped" ? "info" : "warn";
        log[level]("worker ended", {
          worker: worker.id,
          worker_kind: worker.kind,
          kind,
          message,
          code,
          signal,
          forced,
        });
      });
      return worker;
    },
    live: () => [...workers.values()],
    async stopAll(reason) {
      stopping = true;
      await Promise.all([...workers.values()].map((worker) => worker.stop(reason)));
    },
    async sweep() {
      const killed = await killMarked(marks.dir(socketDir));
      for (const dir of [socketDir, givenDir]) {
        for (const name of await readdir(dir).catch(() => [])) {
          if (!isId(name, "wrk") && !name.endsWith(".sock")) continue; // sockets: of an older version
          await rm(join(dir, name), { recursive: true, force: true }).catch((error) =>
            log.warn("the folder of a former worker could not be removed", { folder: join(dir, name), error }),
          );
        }
      }
      if (killed.length > 0) log.warn("killed workers that a former server left behind", { pids: killed });
      return killed.length;
    },
  };
}
