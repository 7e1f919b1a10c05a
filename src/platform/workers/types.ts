import type { ZodType } from "zod";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";

export type WorkerMessage = { type: string };
/** The ways in which a child can end without its own message. The protocol of a worker adds the kinds it reports. */
export type SeenFailure = "crashed" | "silent" | "lied";

type ReportedBy<In> = Extract<In, { type: "failed" }> extends { kind: infer K extends string } ? K : never;
export type ExitKind<In> = "done" | "stopped" | SeenFailure | ReportedBy<In>;
export type Exit<Kind extends string = string> = {
  kind: Kind;
  /** One sentence for people, redacted. */
  message: string;
  /** The end of its standard error, redacted. */
  tail: string;
  stderrBytes: number;
  code: number | null;
  signal: string | null;
  /** It had to be killed. */
  forced: boolean;
};

/** Files that one worker may reach beyond those that every worker of its kind may. */
export type Grants = {
  /** Files, and folders with what lies beneath them. */
  reads?: readonly string[];
  /** Folders that exist, in which it makes, changes and removes files. */
  writes?: readonly string[];
  /** Files that exist, which it changes in place. */
  updates?: readonly string[];
  /** The devices and the driver of the GPUs. */
  gpu?: boolean;
  /** It gives files to another user, as a server that is root has it do for sessions. */
  owner?: boolean;
};

type Confined = {
  kind: string;
  /** argv of the worker. */
  argv: readonly string[];
  env: Readonly<Record<string, string>>;
  folder: { own: string; given: string; socketPath: string };
  grants: Grants;
};
/** argv of a process that gives up what the worker does not need and then becomes it. Throws where that is impossible. */
export type Confine = (worker: Confined) => readonly string[];
/** The exit code of a process that could not be confined; what it lacked is on its standard error. */
export const UNCONFINED = 126;

export type WorkerOptions<In extends WorkerMessage> = {
  kind: string;
  args?: readonly string[];
  grants?: Grants;
  /** Every message is checked with it; one that does not fit is a lie and ends the worker. */
  incoming: ZodType<In>;
  /** Gets everything but `ready`, `heartbeat` and `failed`. */
  onMessage?: (message: In) => unknown;
  onExit?: (exit: Exit<ExitKind<In>>) => unknown;
  silenceMs: number;
  readyTimeoutMs: number;
  graceMs: number;
  tailBytes: number;
  socketDir: string;
  /** The folder of links to files that workers are granted: on the file system of the models. */
  givenDir: string;
  /** Without it, a worker may do whatever this process may. */
  confine?: Confine;
  /** Called with the process group of a worker that is about to end. */
  hurryEnd?: (group: number) => void;
  /** The server's environment; a worker gets a few names of it. */
  env?: Record<string, string | undefined>;
  /** Only this process ends it, not a SIGTERM from elsewhere. */
  ignoresTerm?: boolean;
  /** For this worker alone, on top of that. */
  extraEnv?: Record<string, string>;
  /** argv of this program, when not the running one. */
  program?: readonly string[];
  log: Log;
  clock: Clock;
};

export type Worker<In extends WorkerMessage = WorkerMessage, Out = unknown> = {
  readonly id: string;
  readonly kind: string;
  readonly pid: number;
  readonly socketPath: string;
  /** The name under which it may read this file; undefined where only a new worker can be granted the file. */
  link: (path: string) => string | undefined;
  /** The same, with a copy where the file cannot be linked: for small files. */
  bring: (path: string) => Promise<string>;
  /** Rejects when it ends before it is ready. */
  readonly ready: Promise<void>;
  readonly exited: Promise<Exit<ExitKind<In>>>;
  /** False when it is gone. */
  send: (message: Out) => boolean;
  /** Asks, then insists after `graceMs`. */
  stop: (reason: string) => Promise<Exit<ExitKind<In>>>;
};
