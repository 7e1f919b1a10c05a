/**
 * The worker's side of the channel: handshake, heartbeat, orderly stop, and exit when the server dies. Heartbeats come
 * from the main thread on purpose: they prove that its event loop runs. A native call that blocks it for longer than a
 * few seconds announces itself with `beat(quietMs)`, or calls `beat()` between shorter calls.
 */
import { writeFileSync } from "node:fs";
import type { ZodType } from "zod";
import { errorText } from "../lib/error_text.ts";
import { UsageError } from "../lib/errors.ts";
import { dieWithParent } from "../native/parent_death.ts";
import { PROTOCOL, Start, Stop, WorkerError } from "./protocol.ts";

export type Host<In, Out> = {
  readonly id: string;
  /** A worker that streams serves HTTP on this socket. */
  readonly socketPath: string;
  /** Aborts when the server asks the worker to stop. */
  readonly stopping: AbortSignal;
  /** The server's messages in order. None is lost while the worker is busy. The sequence ends when stopping. */
  readonly messages: AsyncIterable<In>;
  send: (message: Out) => void;
  /** Sends a heartbeat. `quietMs` announces that the worker will be silent for at most that long. */
  beat: (quietMs?: number) => void;
};

const FLUSH_MS = 2_000;
const OOM_SCORE = "500"; // when memory runs out, the kernel should kill a worker, not the server

/**
 * Runs `main` as a worker of the server that started this process, then exits: 0, or 1 after it reported the failure.
 */
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
  await flush({ type: "heartbeat" }); // the channel keeps the order: all earlier messages are written when this one is
  return process.exit(0);
}

async function connect<In, Out>(incoming: ZodType<In>): Promise<Host<In, Out>> {
  if (!process.send) throw new UsageError("`verk worker` is started by the server and cannot be run by hand");
  process.on("disconnect", () => process.exit(1)); // the server is gone: there is nowhere to report to
  dieWithParent();
  const stopping = new AbortController();
  let ignoresTerm = false;
  process.on("SIGTERM", () => void (ignoresTerm || stopping.abort("SIGTERM")));
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
  ignoresTerm = start.ignores_term;
  if (process.ppid !== start.parent_pid) process.exit(1); // the parent died before this process asked to die with it
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
/** The one function that turns an escaped error into a failure kind. */
async function fail(error: unknown): Promise<never> {
  if (failing) return new Promise<never>(() => {}); // the first failure is being reported
  failing = true;
  // printing the error object itself would add source lines
  console.error(error instanceof Error ? (error.stack ?? error.message) : error);
  const kind = error instanceof WorkerError ? error.kind : "crashed";
  await flush({ type: "failed", kind, message: errorText(error) });
  return process.exit(1);
}

const say = (message: unknown) => void process.send?.(message);

/** Waits until the message is written: process.exit() drops what is still in the channel. */
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
    // without /proc the kernel chooses by its own score
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
