/**
 * One child process of this program. Its end is normal and is always reported once, with a kind: its own message
 * (`failed`, `done`), our action (`stopped`), or our observation (`crashed`, `silent`, `lied`).
 * Messages go over the IPC channel; streams go over a unix socket that the child serves at `socketPath`.
 */
import type { ZodError } from "zod";
import { newId } from "../../lib/ids.ts";
import { redactText } from "../../lib/text/redact.ts";
import { createTail } from "../../lib/text/tail.ts";
import { nextTurn, takingTurns } from "../../lib/turns.ts";
import { failpoint } from "../failpoint.ts";
import type { Log } from "../log.ts";
import { noteEnded } from "../turn_watch.ts";
import { marks, workerEnv } from "./env.ts";
import { makeFolder, type WorkerFolder } from "./folder.ts";
import { killMarked } from "./orphans.ts";
import { inspected, self } from "./self.ts";
import {
  type Exit,
  type ExitKind,
  type SeenFailure,
  UNCONFINED,
  type Worker,
  type WorkerMessage,
  type WorkerOptions,
} from "./types.ts";

const SILENCE_STEPS = 4;
const DRAIN_MS = 1_000;
const MOST_UNREAD = 100_000; // messages

export function spawnWorker<In extends WorkerMessage, Out = unknown>(options: WorkerOptions<In>): Worker<In, Out> {
  return new WorkerProcess<In, Out>(options);
}

class WorkerProcess<In extends WorkerMessage, Out> implements Worker<In, Out> {
  readonly id: string;
  readonly kind: string;
  readonly socketPath: string;
  readonly ready: Promise<void>;
  readonly exited: Promise<Exit<ExitKind<In>>>;

  readonly #options: WorkerOptions<In>;
  readonly #log: Log;
  readonly #child: ReturnType<WorkerProcess<In, Out>["spawn"]>;
  readonly #folder: WorkerFolder;
  readonly #tail: ReturnType<typeof createTail>;
  readonly #drained: Promise<void>;
  readonly #ready = Promise.withResolvers<void>();
  readonly #disconnected = Promise.withResolvers<void>();
  readonly #isReady = new AbortController();
  readonly #gone = new AbortController(); // aborts when the process has ended
  #ending: { kind: ExitKind<In>; message: string } | undefined; // the first cause wins
  #stopReason: string | undefined;
  #forced = false;
  #quietMs: number; // silence that may still come before it counts as hung
  readonly #inbox: unknown[] = [];
  #isReading = false;

  constructor(options: WorkerOptions<In>) {
    this.#options = options;
    this.id = newId("wrk", options.clock.now());
    this.kind = options.kind;
    this.#log = options.log.child({ worker: this.id, worker_kind: this.kind });
    this.#tail = createTail(options.tailBytes);
    this.#quietMs = options.silenceMs;
    const { socketDir, givenDir } = options;
    this.#folder = makeFolder({ id: this.id, socketDir, givenDir });
    this.socketPath = this.#folder.socketPath;
    this.ready = this.#ready.promise;
    this.ready.catch(() => {}); // a caller that does not wait for it learns of the end by `exited`

    failpoint("supervisor.before_spawn");
    try {
      this.#child = this.spawn();
    } catch (error) {
      void this.#folder.remove();
      throw error;
    }
    failpoint("supervisor.after_spawn");
    this.#drained = drain(this.#child.stderr, this.#tail.push);
    this.exited = this.#finish();
    void this.#watchReady();
    void this.#watchSilence();
    void this.#watchChannel();
    this.#post({
      type: "start",
      id: this.id,
      parent_pid: process.pid,
      socket_path: this.socketPath,
      beat_ms: Math.ceil(options.silenceMs / (SILENCE_STEPS * 2)),
      ignores_term: options.ignoresTerm ?? false,
    });
  }

  get pid() {
    return this.#child.pid;
  }

  send(message: Out): boolean {
    return this.#post(message);
  }

  link(path: string): string | undefined {
    return this.#options.confine ? this.#folder.link(path) : path;
  }

  async bring(path: string): Promise<string> {
    return this.#options.confine ? await this.#folder.bring(path) : path;
  }

  stop(reason: string): Promise<Exit<ExitKind<In>>> {
    if (this.#stopReason === undefined && !this.#gone.signal.aborted) {
      this.#stopReason = reason;
      this.#post({ type: "stop", reason });
      this.#child.kill("SIGTERM");
      void this.#killAfter(this.#options.graceMs);
    }
    return this.exited;
  }

  private spawn() {
    const { program, args = [], socketDir, env: ambient = {}, extraEnv = {}, grants = {}, confine } = this.#options;
    const folder = this.#folder;
    const env = { ...workerEnv(ambient, { id: this.id, dir: socketDir, own: folder.own }), ...extraEnv };
    const inspector = inspected(this.kind, ambient);
    const argv = [...(inspector ?? program ?? self()), "worker", this.kind, ...args];
    const isConfined = confine !== undefined && inspector === undefined;
    return Bun.spawn([...((isConfined && confine({ kind: this.kind, argv, env, folder, grants })) || argv)], {
      cwd: folder.own, // not ours: the runtime reads .env from the working directory
      env,
      stdin: "ignore",
      stdout: "ignore", // /dev/null: no amount of it blocks the child or costs us anything
      stderr: "pipe",
      detached: true, // a process group of its own, to be killed as a whole
      serialization: "json",
      ipc: (message) => this.#receive(message),
      onDisconnect: () => this.#disconnected.resolve(),
    });
  }

  /** A worker may send very many at once: they are read in turns, in their order. */
  #receive(raw: unknown) {
    this.#quietMs = Math.max(this.#quietMs, this.#options.silenceMs);
    if (this.#inbox.length >= MOST_UNREAD) return this.#convict("lied", "sent more messages than can be read");
    this.#inbox.push(raw);
    if (!this.#isReading) void this.#readInbox();
  }

  async #readInbox() {
    this.#isReading = true;
    const turn = takingTurns();
    try {
      while (this.#inbox.length > 0) {
        this.#read(this.#inbox.shift());
        const wait = turn();
        if (wait) await wait;
      }
    } finally {
      this.#isReading = false; // the end of the worker waits for it
    }
  }

  #read(raw: unknown) {
    // Messages that a silent worker sent before it was ended may come late: they count.
    if (this.#ending && this.#ending.kind !== "silent") return;
    const parsed = this.#options.incoming.safeParse(raw);
    if (!parsed.success) return this.#convict("lied", `sent a message outside its protocol (${where(parsed.error)})`);
    const message: In & { quiet_ms?: number; kind?: ExitKind<In>; message?: string } = parsed.data;
    this.#quietMs = this.#options.silenceMs;
    const isReady = this.#isReady.signal.aborted;
    switch (message.type) {
      case "ready":
        if (isReady) return this.#convict("lied", "said ready twice");
        this.#isReady.abort();
        return this.#ready.resolve();
      case "heartbeat":
        this.#quietMs += message.quiet_ms ?? 0;
        return;
      case "failed":
        this.#ending = { kind: message.kind ?? "crashed", message: `failed: ${message.message ?? ""}` };
        return void this.#endAfter(this.#options.graceMs);
    }
    if (!isReady) return this.#convict("lied", `sent "${message.type}" before ready`);
    if (message.type === "done") {
      this.#ending = { kind: "done", message: "finished" };
      void this.#endAfter(this.#options.graceMs);
    }
    void this.#tell("message", () => this.#options.onMessage?.(message));
  }

  #post(message: unknown): boolean {
    try {
      this.#child.send(message);
      return true;
    } catch {
      return false; // the channel closed under us; `exited` tells why
    }
  }

  #convict(kind: SeenFailure, message: string) {
    this.#ending ??= { kind, message };
    this.#kill();
  }

  #kill() {
    if (this.#gone.signal.aborted) return;
    this.#forced = true;
    this.#options.hurryEnd?.(this.pid);
    killGroup(this.pid);
  }

  /** It has said its last word, and ends by itself. */
  async #endAfter(ms: number) {
    this.#options.hurryEnd?.(this.pid);
    await this.#killAfter(ms);
  }

  async #killAfter(ms: number) {
    await this.#options.clock.sleep(ms, this.#gone.signal);
    this.#kill();
  }

  async #watchReady() {
    const { clock, readyTimeoutMs } = this.#options;
    await clock.sleep(readyTimeoutMs, AbortSignal.any([this.#gone.signal, this.#isReady.signal]));
    if (this.#gone.signal.aborted || this.#isReady.signal.aborted) return;
    this.#convict("silent", `was not ready within ${readyTimeoutMs} ms`);
  }

  /** In steps, each a turn of the event loop: if it was the server that stood still, waiting messages come first. */
  async #watchSilence() {
    const { clock, silenceMs } = this.#options;
    const stepMs = Math.max(1, silenceMs / SILENCE_STEPS);
    while (!this.#gone.signal.aborted) {
      await clock.sleep(stepMs, this.#gone.signal);
      this.#quietMs -= stepMs;
      if (this.#isReady.signal.aborted && this.#quietMs <= 0) {
        return this.#convict("silent", `said nothing for ${silenceMs} ms`);
      }
    }
  }

  async #watchChannel() {
    await this.#disconnected.promise;
    await this.#options.clock.sleep(this.#options.graceMs, this.#gone.signal);
    if (!this.#gone.signal.aborted) this.#convict("lied", "broke its control channel");
  }

  async #finish(): Promise<Exit<ExitKind<In>>> {
    await this.#child.exited;
    noteEnded();
    this.#gone.abort();
    killGroup(this.pid);
    await killMarked(marks.worker(this.id));
    // Its last output may still be on the way.
    await Promise.race([Promise.all([this.#disconnected.promise, this.#drained]), Bun.sleep(DRAIN_MS)]);
    await Promise.race([this.#folder.remove(), Bun.sleep(DRAIN_MS)]); // it may have left very many files
    while (this.#isReading) await nextTurn();
    const { exitCode: code, signalCode: signal } = this.#child;
    const { kind, message } = this.#ending ?? this.#unspoken();
    const exit: Exit<ExitKind<In>> = {
      kind,
      message: redactText(`Worker ${this.kind} ${message}`),
      tail: redactText(this.#tail.text()),
      stderrBytes: this.#tail.total,
      code,
      signal: signal === null ? null : String(signal),
      forced: this.#forced,
    };
    this.#ready.reject(new Error(exit.message));
    await this.#tell("exit", () => this.#options.onExit?.(exit));
    return exit;
  }

  #unspoken(): { kind: "stopped" | "crashed"; message: string } {
    if (this.#stopReason !== undefined) return { kind: "stopped", message: `was stopped: ${this.#stopReason}` };
    const { exitCode, signalCode } = this.#child;
    if (signalCode === "SIGKILL") {
      return { kind: "crashed", message: "was killed from outside, most likely because memory ran out" };
    }
    if (signalCode) return { kind: "crashed", message: `died of ${signalCode}` };
    if (exitCode === UNCONFINED && this.#options.confine) {
      return { kind: "crashed", message: `could not be started in its sandbox: ${this.#tail.text().trim()}` };
    }
    return { kind: "crashed", message: `exited with code ${exitCode} without a word` };
  }

  /** A handler's mistake is the server's bug: logged, and no reason to lose the child. */
  async #tell(what: string, handler: () => unknown) {
    try {
      await handler();
    } catch (error) {
      this.#log.error(`the handler of a worker's ${what} failed`, { error });
    }
  }
}

const where = (error: ZodError) => {
  const [first] = error.issues;
  return first ? `${first.path.join(".") || "message"}: ${first.message}` : "unknown";
};

function killGroup(pid: number) {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // no process is left in it
  }
}

async function drain(stream: ReadableStream<Uint8Array>, push: (chunk: Uint8Array) => void) {
  try {
    for await (const chunk of stream) push(chunk);
  } catch {
    // the pipe broke with the child; what came before counts
  }
}
