/** The server's side of the inspector: files wait in line, and the process lives only while there is work. */
import { dirname } from "node:path";
import type { Ctx } from "../../../context.ts";
import { oncePer } from "../../../lib/once_per.ts";
import type { Supervisor } from "../../../platform/workers/supervisor.ts";
import type { Grants, Worker } from "../../../platform/workers/types.ts";
import { FromInspector, type ModelShape, type ToInspector } from "../../../workers/protocol.ts";

/** `broken`: not the file's fault, the process ended: worth another try. */
type Refusal = { ok: false; error: string; broken: boolean };
export type Inspection = { ok: true; shape: ModelShape; sizeBytes: number; sha256: string | null } | Refusal;

type Options = { hash: boolean; onProgress?: (fraction: number) => void };
type Question = Exclude<ToInspector, { type: "unpack" }>;
type Answer = Extract<FromInspector, { type: "inspected" | "placed" }> | Refusal;
type Waiting = { question: Question; onProgress?: Options["onProgress"]; done: (answer: Answer) => void };

const IDLE_MS = 5_000;
const LOOK_MS = 120_000; // a header is read in a moment; a disk that does not answer must not keep the others waiting

/** Hashing a large file takes minutes: whoever only wants to know what a file is does not wait behind it. */
const linesOf = oncePer((supervisor: Supervisor) => ({ look: createLine(supervisor), hash: createLine(supervisor) }));

export async function inspect(ctx: Ctx, path: string, { hash, onProgress }: Options): Promise<Inspection> {
  const lines = linesOf(ctx.supervisor);
  const answer = await (hash ? lines.hash : lines.look).ask({ type: "inspect", path, hash }, onProgress);
  if ("ok" in answer) return answer;
  if (answer.type !== "inspected") throw new Error(`the inspector answered ${answer.type}`);
  const { shape, size_bytes: sizeBytes, sha256 } = answer;
  return { ok: true, shape, sizeBytes, sha256 };
}

/** The model inside the executable → `path`, by the child too: its pages then are no memory of the server. */
export async function placeBuiltin(ctx: Ctx, path: string, sha256: string) {
  const answer = await linesOf(ctx.supervisor).look.ask({ type: "place", path, sha256 });
  if ("ok" in answer) throw new Error(`The built-in model could not be copied to ${path}: ${answer.error}`);
}

export type InspectorLine = ReturnType<typeof createLine>;

function createLine(supervisor: Supervisor) {
  const queue: Waiting[] = [];
  let worker: Worker<FromInspector, ToInspector> | undefined;
  let idle: ReturnType<typeof setTimeout> | undefined;
  let late: ReturnType<typeof setTimeout> | undefined;
  let busy = false;
  let writable: string | undefined; // the folder that the process may write

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
      tell(first.question);
    } catch (error) {
      return settle({ ok: false, error: (error as Error).message, broken: true });
    }
    if (first.question.type === "inspect" && first.question.hash) return;
    late = setTimeout(() => void worker?.stop("the file does not answer"), LOOK_MS);
    late.unref();
  }

  function tell(question: Question) {
    const { type, path } = question;
    let name = worker && nameFor(worker, question);
    if (name === undefined) {
      dismiss();
      writable = type === "place" ? dirname(path) : undefined;
      worker = start(writable === undefined ? { reads: [path] } : { writes: [writable] });
      name = path;
    }
    worker?.send({ ...question, path: name });
  }

  /** The file's name for the running process; undefined: it needs another. One that may write sees no other folder. */
  function nameFor(running: NonNullable<typeof worker>, { type, path }: Question): string | undefined {
    if (writable !== undefined) return writable === dirname(path) ? path : undefined;
    return type === "place" ? undefined : running.link(path);
  }

  /** Forgotten at once: a file that comes before it has ended needs another. */
  function dismiss() {
    void worker?.stop("no work");
    worker = undefined;
  }

  function settle(answer: Answer) {
    clearTimeout(late);
    queue.shift()?.done(answer);
    next();
  }

  function start(grants: Grants) {
    const started = supervisor.spawn<FromInspector, ToInspector>({
      kind: "inspector",
      incoming: FromInspector,
      grants,
      onMessage(message) {
        if (message.type === "hashing") queue[0]?.onProgress?.(message.progress);
        if (message.type === "refused") settle({ ok: false, error: message.error, broken: false });
        if (message.type === "inspected" || message.type === "placed") settle(message);
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
    ask: (question: Question, onProgress?: Options["onProgress"]) =>
      new Promise<Answer>((done) => {
        queue.push({ question, onProgress, done });
        if (!busy) next();
      }),
  };
}
