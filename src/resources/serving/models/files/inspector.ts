/** Processes that look at files, each at one after the other. They live only while there is work. */
import { dirname } from "node:path";
import { Semaphore } from "../../../../platform/semaphore.ts";
import type { Supervisor } from "../../../../platform/workers/supervisor.ts";
import type { Grants, Worker } from "../../../../platform/workers/types.ts";
import { FromInspector, type ToInspector } from "../../../../workers/protocol_inspector.ts";

/** `broken`: the process ended, which is not the file's fault. Another attempt may succeed. */
export type Refusal = { ok: false; error: string; broken: boolean };
export type Answer = Extract<FromInspector, { type: "inspected" | "hashed" | "placed" | "kernels" }> | Refusal;
export type Question = Exclude<ToInspector, { type: "unpack" | "check" | "convert" | "quantize" }>;
export type OnProgress = (fraction: number) => void;

type Task = { onProgress: OnProgress | undefined; done: (answer: Answer) => void };

const IDLE_MS = 5_000;
const HEADER_MS = 120_000; // a header is read in a moment; a disk that hangs must not hold up the next files

/** `permits` processes, in fair turns by workspace. */
export class Inspectors {
  readonly turns: Semaphore;
  /** The one that was used last is the next: its process may still run. */
  readonly #idle: Inspector[];

  constructor(options: { name: string; permits: number; mostWaitingEach: number }) {
    this.turns = new Semaphore(options);
    this.#idle = Array.from({ length: options.permits }, () => new Inspector());
  }

  /** `workspaceId`: "" for the server itself. */
  async ask(supervisor: Supervisor, workspaceId: string, question: Question, onProgress?: OnProgress): Promise<Answer> {
    const release = this.turns.tryAcquire(workspaceId) ?? (await this.turns.acquire({ workspaceId }));
    const inspector = this.#idle.pop() ?? new Inspector();
    try {
      return await inspector.ask(supervisor, question, onProgress);
    } finally {
      this.#idle.push(inspector);
      release?.();
    }
  }
}

/** Takes one question at a time. */
class Inspector {
  #worker: Worker<FromInspector, ToInspector> | undefined;
  /** The folder that the process may write; undefined: it may only read. */
  #writable: string | undefined;
  #task: Task | undefined;
  #idle: ReturnType<typeof setTimeout> | undefined;

  async ask(supervisor: Supervisor, question: Question, onProgress?: OnProgress): Promise<Answer> {
    clearTimeout(this.#idle);
    const isShort =
      question.type === "place" || question.type === "kernels" || (question.type === "inspect" && !question.hash);
    const late = isShort ? setTimeout(() => void this.#worker?.stop("the file does not answer"), HEADER_MS) : undefined;
    late?.unref();
    try {
      return await this.#answerTo(supervisor, question, onProgress);
    } finally {
      clearTimeout(late);
      this.#idle = setTimeout(() => this.#dismiss(), IDLE_MS);
      this.#idle.unref();
    }
  }

  #answerTo(supervisor: Supervisor, question: Question, onProgress: OnProgress | undefined): Promise<Answer> {
    return new Promise<Answer>((done) => {
      this.#task = { onProgress, done };
      try {
        this.#send(supervisor, question);
      } catch (error) {
        this.#settle({ ok: false, error: (error as Error).message, broken: true });
      }
    });
  }

  #settle(answer: Answer) {
    const task = this.#task;
    this.#task = undefined;
    task?.done(answer);
  }

  #send(supervisor: Supervisor, question: Question) {
    const { type, path } = question;
    const name = this.#nameFor(question);
    if (name !== undefined) return void this.#worker?.send({ ...question, path: name });
    this.#dismiss();
    this.#writable = type === "place" ? dirname(path) : undefined;
    this.#worker = this.#start(
      supervisor,
      this.#writable === undefined ? { reads: [path] } : { writes: [this.#writable] },
    );
    this.#worker.send(question);
  }

  /** The file's name for the running process; undefined: it needs another. One that may write sees no other folder. */
  #nameFor({ type, path }: Question): string | undefined {
    if (!this.#worker) return undefined;
    if (this.#writable !== undefined) return this.#writable === dirname(path) ? path : undefined;
    return type === "place" ? undefined : this.#worker.link(path);
  }

  /** Forgotten at once: a file that comes before the process has ended needs another. */
  #dismiss() {
    void this.#worker?.stop("no work");
    this.#worker = undefined;
  }

  #start(supervisor: Supervisor, grants: Grants) {
    const started = supervisor.spawn<FromInspector, ToInspector>({
      kind: "inspector",
      incoming: FromInspector,
      grants,
      onMessage: (message) => {
        if (message.type === "hashing") this.#task?.onProgress?.(message.progress);
        if (message.type === "refused") this.#settle({ ok: false, error: message.error, broken: false });
        if (message.type === "inspected" || message.type === "hashed" || message.type === "placed")
          this.#settle(message);
        if (message.type === "kernels") this.#settle(message);
      },
      onExit: ({ message }) => {
        if (this.#worker !== started) return;
        this.#worker = undefined;
        this.#settle({ ok: false, error: `The check of the file was cut off: ${message}`, broken: true });
      },
    });
    return started;
  }
}
