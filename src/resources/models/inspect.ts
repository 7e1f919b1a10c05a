/** The server's side of the inspector: files wait in line, and the process lives only while there is work. */
import type { Ctx } from "../../context.ts";
import { oncePer } from "../../lib/once_per.ts";
import type { Supervisor } from "../../platform/supervisor.ts";
import type { Worker } from "../../platform/worker.ts";
import { FromInspector, type ModelShape, type ToInspector } from "../../workers/protocol.ts";

export type Inspection =
  | { ok: true; shape: ModelShape; sizeBytes: number; sha256: string | null }
  /** `broken`: not the file's fault, the process ended: worth another try. */
  | { ok: false; error: string; broken: boolean };

type Options = { hash: boolean; onProgress?: (fraction: number) => void };
type Waiting = { path: string; options: Options; done: (inspection: Inspection) => void };

const IDLE_MS = 5_000;
const LOOK_MS = 120_000; // a header is read in a moment; a disk that does not answer must not keep the others waiting

/** Hashing a large file takes minutes: whoever only wants to know what a file is does not wait behind it. */
const linesOf = oncePer((supervisor: Supervisor) => ({ look: createLine(supervisor), hash: createLine(supervisor) }));

export function inspect(ctx: Ctx, path: string, options: Options): Promise<Inspection> {
  const lines = linesOf(ctx.supervisor);
  return new Promise((done) => (options.hash ? lines.hash : lines.look).add({ path, options, done }));
}

function createLine(supervisor: Supervisor) {
  const queue: Waiting[] = [];
  let worker: Worker<FromInspector, ToInspector> | undefined;
  let idle: ReturnType<typeof setTimeout> | undefined;
  let late: ReturnType<typeof setTimeout> | undefined;
  let busy = false;

  function next() {
    clearTimeout(idle);
    const [first] = queue;
    busy = first !== undefined;
    if (!first) {
      idle = setTimeout(dismiss, IDLE_MS);
      idle.unref();
      return;
    }
    try {
      worker ??= start();
    } catch (error) {
      return settle({ ok: false, error: (error as Error).message, broken: true });
    }
    worker.send({ type: "inspect", path: first.path, hash: first.options.hash });
    if (first.options.hash) return;
    late = setTimeout(() => void worker?.stop("the file does not answer"), LOOK_MS);
    late.unref();
  }

  /** Forgotten at once: a file that comes before it has ended needs another. */
  function dismiss() {
    void worker?.stop("no work");
    worker = undefined;
  }

  function settle(inspection: Inspection) {
    clearTimeout(late);
    queue.shift()?.done(inspection);
    next();
  }

  function start() {
    const started = supervisor.spawn<FromInspector, ToInspector>({
      kind: "inspector",
      incoming: FromInspector,
      onMessage(message) {
        if (message.type === "hashing") queue[0]?.options.onProgress?.(message.progress);
        if (message.type === "refused") settle({ ok: false, error: message.error, broken: false });
        if (message.type !== "inspected") return;
        const { shape, size_bytes: sizeBytes, sha256 } = message;
        settle({ ok: true, shape, sizeBytes, sha256 });
      },
      onExit({ message }) {
        if (worker !== started) return;
        worker = undefined;
        if (busy) settle({ ok: false, error: `The check of the file was cut off: ${message}`, broken: true });
      },
    });
    return started;
  }

  return {
    add(waiting: Waiting) {
      queue.push(waiting);
      if (!busy) next();
    },
  };
}
