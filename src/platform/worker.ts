import type { ZodType } from "zod";
import type { Clock } from "./clock.ts";
import type { Log } from "./log.ts";

export type WorkerMessage = { type: string };
/** How a child can end without saying so. A worker's own protocol adds the kinds it reports. */
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

export type WorkerOptions<In extends WorkerMessage> = {
  kind: string;
  args?: readonly string[];
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
  /** The server's environment; a worker gets a few names of it. */
  env?: Record<string, string | undefined>;
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
  /** Rejects when it ends before it is ready. */
  readonly ready: Promise<void>;
  readonly exited: Promise<Exit<ExitKind<In>>>;
  /** False when it is gone. */
  send: (message: Out) => boolean;
  /** Asks, then insists after `graceMs`. */
  stop: (reason: string) => Promise<Exit<ExitKind<In>>>;
};
