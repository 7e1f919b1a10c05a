/**
 * A worker on a node, with the interface of one on this machine. It goes on while the link is cut: `isReachable` is
 * false then, and messages in both directions follow later.
 */

import type { ZodType } from "zod";
import { errorText } from "../../lib/error_text.ts";
import { newId } from "../../lib/ids.ts";
import { readOutside } from "../../lib/json/outside.ts";
import { SECOND_MS } from "../../lib/units.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { makeFolder, type WorkerFolder } from "../workers/folder.ts";
import type { Exit, ExitKind, Worker, WorkerMessage } from "../workers/types.ts";
import type { Channel } from "./channel.ts";
import {
  type FromReplica,
  REPLICA_LINE,
  type ReplicaNode,
  type ReplicaPlan,
  type StartedReplica,
  type ToReplica,
} from "./replicas.ts";
import { modelInput } from "./staging.ts";
import { type InputFile, Unreachable } from "./types.ts";

type Options<In extends WorkerMessage> = {
  node: ReplicaNode;
  plan: ReplicaPlan;
  inputs: () => Promise<InputFile[]>;
  /** Names of the other replicas of the deployment that this server has. */
  keep: () => readonly string[];
  incoming: ZodType<In>;
  onMessage: (message: In) => unknown;
  onExit: (exit: Exit) => unknown;
  /** The replica has answered. It may have waited in a queue before. */
  onReached: () => unknown;
  /** The server ends: the replica goes on, and the next server takes it. */
  closing: AbortSignal;
  clock: Clock;
  log: Log;
  /** The folder of the workers of this server. The next server empties it. */
  socketDir: string;
};

const PING_MS = 5 * SECOND_MS;
const FIRST_PAUSE_MS = SECOND_MS / 2;
const LONGEST_PAUSE_MS = 10 * SECOND_MS;
const NO_PROCESS = 2 ** 31 - 1; // more than Linux gives

export class RemoteWorker<In extends WorkerMessage, Out> implements Worker<In, Out> {
  readonly id = newId("wrk");
  readonly kind = "serving";
  readonly pid = NO_PROCESS;
  readonly socketPath: string;
  readonly #options: Options<In>;
  readonly #folder: WorkerFolder;
  readonly #ready = Promise.withResolvers<void>();
  readonly #exited = Promise.withResolvers<Exit<ExitKind<In>>>();
  readonly #over = new AbortController();
  readonly #sent: Out[] = [];
  #starting: Promise<StartedReplica> | undefined;
  #started: StartedReplica | undefined;
  #channel: Channel | undefined;
  #received = 0;
  #isReachable = false;

  constructor(options: Options<In>) {
    this.#options = options;
    const { socketDir } = options;
    this.#folder = makeFolder({ id: this.id, socketDir, givenDir: socketDir });
    this.socketPath = this.#folder.socketPath;
    this.ready.catch(() => {}); // `exited` has the reason
    options.closing.addEventListener("abort", () => this.#leave(), { once: true });
    void this.#follow();
  }

  get ready() {
    return this.#ready.promise;
  }
  get exited() {
    return this.#exited.promise;
  }
  get isReachable() {
    return this.#isReachable;
  }
  /** Undefined until the node has started or found it. */
  get name() {
    return this.#started?.name;
  }

  link() {
    return undefined;
  }

  /** Copies the file to the node, by its hash. */
  async bring(path: string): Promise<string> {
    const file = await modelInput(path);
    await this.#options.node.bring([file]);
    return file.path;
  }

  send(message: Out): boolean {
    if (this.#over.signal.aborted) return false;
    this.#sent.push(message);
    this.#write({ n: this.#sent.length, send: message });
    return true;
  }

  /** If the node cannot be reached, the replica ends there by itself when its lease is over. */
  async stop(reason: string): Promise<Exit<ExitKind<In>>> {
    if (this.#over.signal.aborted) return await this.exited;
    this.#leave();
    const started = await this.#starting?.catch(() => undefined);
    const name = started?.name ?? this.#options.plan.name;
    if (this.#starting) await this.#cancel(name);
    this.#end("stopped", reason);
    return await this.exited;
  }

  /** For a replica that hangs: its end is a loss. */
  abandon(message: string) {
    if (this.#over.signal.aborted) return;
    this.#leave();
    if (this.#starting) void this.#cancel(this.name ?? this.#options.plan.name);
    this.#end("crashed", message);
  }

  /** The first attempt is awaited. While the node is away, more follow in the background. */
  async #cancel(name: string): Promise<void> {
    const { node, clock, plan, log } = this.#options;
    const until = clock.steady() + plan.lease_ms;
    const attempt = () =>
      node.stop(name).then(
        () => true,
        (error) => {
          log.warn("a replica on a node was not ended yet", { replica: name, error });
          return false;
        },
      );
    if (await attempt()) return;
    void (async () => {
      while (clock.steady() < until && !this.#options.closing.aborted) {
        await clock.sleep(LONGEST_PAUSE_MS, this.#options.closing);
        if (await attempt()) return;
      }
    })();
  }

  async #follow() {
    const { clock } = this.#options;
    let pause = FIRST_PAUSE_MS;
    while (!this.#over.signal.aborted) {
      try {
        await this.#connect();
        pause = FIRST_PAUSE_MS;
      } catch (error) {
        if (this.#over.signal.aborted) return;
        if (!(error instanceof Unreachable)) return this.abandon(errorText(error));
        this.#options.log.info("a replica on a node cannot be reached", { replica: this.#options.plan.name, error });
      }
      await clock.sleep(pause, this.#over.signal);
      pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
    }
  }

  async #start(): Promise<StartedReplica> {
    const { node, plan, inputs, keep } = this.#options;
    await node.bring(await inputs());
    this.#over.signal.throwIfAborted();
    this.#starting = node.start(plan, keep());
    return await this.#starting;
  }

  /** Returns when a connection that had been made is lost. */
  async #connect() {
    const { node } = this.#options;
    this.#started ??= await this.#start();
    this.#ready.resolve();
    if (this.#over.signal.aborted) return;
    const { name, worker } = this.#started;
    const channel = await node.attach({ name, worker, local: this.socketPath });
    if (this.#over.signal.aborted) return channel.close();
    this.#channel = channel;
    this.#write({ client: this.id, from: this.#received });
    this.#sent.forEach((send, i) => {
      this.#write({ n: i + 1, send });
    });
    const ping = setInterval(() => this.#write({ ping: true }), PING_MS);
    let isAnswered = false;
    try {
      for await (const line of channel.lines) {
        isAnswered = true;
        this.#take(readOutside(REPLICA_LINE, line));
      }
    } finally {
      clearInterval(ping);
      this.#isReachable = false;
      this.#channel = undefined;
      channel.close();
    }
    if (!isAnswered) throw new Unreachable(await channel.reason());
  }

  #write(line: ToReplica) {
    this.#channel?.write(JSON.stringify(line));
  }

  #take(line: FromReplica) {
    if (this.#over.signal.aborted) return;
    if ("exit" in line) {
      this.#leave();
      void this.#cancel(this.name ?? ""); // removes its files
      this.#end(line.exit.kind, line.exit.message, line.exit.tail);
    } else if ("message" in line) {
      if (line.n <= this.#received) return;
      this.#received = line.n;
      this.#options.onMessage(this.#options.incoming.parse(line.message));
    } else {
      this.#isReachable = true;
      this.#options.onReached();
    }
  }

  /** The link ends, and nothing more is heard of the worker. */
  #leave() {
    this.#over.abort();
    this.#isReachable = false;
    this.#channel?.close();
    void this.#folder.remove();
  }

  #end(kind: string, message: string, tail = "") {
    const exit = { kind: kind as ExitKind<In>, message, tail, stderrBytes: 0, code: null, signal: null, forced: false };
    this.#ready.reject(new Error(message));
    this.#options.onExit(exit);
    this.#exited.resolve(exit);
  }
}
