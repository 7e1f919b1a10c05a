/**
 * The worker's side of the channel: handshake, heartbeat, orderly stop, and death with the server.
 *
 * Heartbeats come from the main thread on purpose: they prove that it still turns. A native call that blocks it for
 * longer than a few seconds announces itself with `beat(quietMs)`, or speaks between shorter calls with `beat()`.
 */
import { writeFileSync } from "node:fs";
import type { ZodType } from "zod";
import { UsageError } from "../lib/errors.ts";
import { dieWithParent } from "../native/parent_death.ts";
import { PROTOCOL, Start, Stop, WorkerError } from "./protocol.ts";

export type Host<In, Out> = {
  readonly id: string;
  /** Where a worker that streams serves HTTP. */
  readonly socketPath: string;
  /** Aborts when the server asks for the end. */
  readonly stopping: AbortSignal;
  /** What the server says, in order, none lost while busy; ends when stopping. */
  readonly messages: AsyncIterable<In>;
  send: (message: Out) => void;
  /** Still here; and, with `quietMs`, about to be silent for at most that long. */
  beat: (quietMs?: number) => void;
};

const FLUSH_MS = 2_000;
const OOM_SCORE = "500"; // when memory runs out the kernel takes a worker, not the server

/** Runs `main` as a worker of the server that started this process, then exits: 0, or 1 after saying what failed. */
export async function runHosted<In extends { type: string }, Out extends { type: string }>(
  incoming: ZodType<In>,
  main: (host: Host<In, Out>) => Promise<void>,
): Promise<never> {
  process.on("uncaughtException", (error) => void fail(error));
  process.on("unhandledRejection", (error) => void fail(error));
  try {
    const host = await connect<In, Out>(incoming);
    await main(host);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    return await fail(error);
  }
  await flush({ type: "heartbeat" }); // everything sent before it is on its way when it is
  return process.exit(0);
}

async function connect<In, Out>(incoming: ZodType<In>): Promise<Host<In, Out>> {
  if (!process.send) throw new UsageError("verk worker is started by the server, not by hand");
  process.on("disconnect", () => process.exit(1)); // the server is gone: nobody is left to tell
  dieWithParent();
  const stopping = new AbortController();
  process.on("SIGTERM", () => stopping.abort("SIGTERM"));
  const started = Promise.withResolvers<Start>();
  const queue = createQueue<In>(stopping.signal);
  let greeted = false;
  process.on("message", (raw: unknown) => {
    if (!greeted) {
      greeted = true;
      return started.resolve(Start.parse(raw));
    }
    const stop = Stop.safeParse(raw);
    if (stop.success) return stopping.abort(stop.data.reason);
    queue.push(incoming.parse(raw));
  });

  const start = await started.promise;
  if (process.ppid !== start.parent_pid) process.exit(1); // it died before we asked to die with it
  preferAsVictim();
  say({ type: "ready", protocol: PROTOCOL });
  const beat = (quietMs?: number) =>
    say(quietMs === undefined ? { type: "heartbeat" } : { type: "heartbeat", quiet_ms: Math.ceil(quietMs) });
  setInterval(beat, start.beat_ms, undefined);
  return {
    id: start.id,
    socketPath: start.socket_path,
    stopping: stopping.signal,
    messages: queue,
    send: say,
    beat,
  };
}

let failing = false;
/** The one place where an error that escaped becomes a kind. */
async function fail(error: unknown): Promise<never> {
  if (failing) return new Promise<never>(() => {}); // the first failure is on its way out
  failing = true;
  console.error(error instanceof Error ? (error.stack ?? error.message) : error); // the error alone brings source lines
  const kind = error instanceof WorkerError ? error.kind : "crashed";
  await flush({ type: "failed", kind, message: error instanceof Error ? error.message : String(error) });
  return process.exit(1);
}

const say = (message: unknown) => void process.send?.(message);

/** process.exit() drops what is still in the channel. */
async function flush(message: unknown) {
  if (!process.connected) return;
  const sent = Promise.withResolvers<void>();
  process.send?.(message, undefined, undefined, () => sent.resolve());
  await Promise.race([sent.promise, Bun.sleep(FLUSH_MS)]);
}

function preferAsVictim() {
  try {
    writeFileSync("/proc/self/oom_score_adj", OOM_SCORE);
  } catch {
    // no /proc: the kernel chooses by itself
  }
}

function createQueue<T>(ended: AbortSignal): AsyncIterable<T> & { push: (item: T) => void } {
  const items: T[] = [];
  let bell = Promise.withResolvers<void>();
  ended.addEventListener("abort", () => bell.resolve());
  return {
    push(item) {
      items.push(item);
      bell.resolve();
    },
    async *[Symbol.asyncIterator]() {
      while (!ended.aborted) {
        const item = items.shift();
        if (item !== undefined) yield item;
        else {
          await bell.promise;
          if (!ended.aborted) bell = Promise.withResolvers<void>();
        }
      }
    },
  };
}
