/**
 * Server ⇄ worker, over the IPC channel of a child process of this same program. Every kind of worker speaks the
 * common messages and adds its own. Messages are hints; files are the truth: a worker writes a file (temporary name,
 * fsync, rename) before it sends the message that points at it, so a lost message costs a delay, not work.
 */
import { z } from "zod";

export const PROTOCOL = 1;

type Failure = { retry: boolean; blame: "user" | "machine" | "us" };

/** How a run can end badly. Retry is a property of the cause, decided here and nowhere else. */
export const FAILURES = {
  config: { retry: false, blame: "user" },
  data: { retry: false, blame: "user" },
  reward: { retry: false, blame: "user" }, //    reward code trapped or ran out of fuel
  memory: { retry: true, blame: "machine" }, //  retried once with less
  crashed: { retry: true, blame: "us" }, //      a signal, an uncaught error, or an exit without a word
  silent: { retry: true, blame: "us" }, //       not ready in time, or no message for `workers.silence_ms`
  lied: { retry: false, blame: "us" }, //        a message outside the protocol, or another protocol
  orphaned: { retry: true, blame: "machine" }, // the server restarted under it
} as const satisfies Record<string, Failure>;

export type FailureKind = keyof typeof FAILURES;

/** What a worker may say about itself; the others are what the server saw. */
export const REPORTED = ["config", "data", "reward", "memory", "crashed"] as const satisfies readonly FailureKind[];
export type ReportedFailure = (typeof REPORTED)[number];

/** Thrown by worker code that knows the cause; anything else that escapes is `crashed`. */
export class WorkerError extends Error {
  constructor(
    readonly kind: ReportedFailure,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "WorkerError";
  }
}

export const Ready = z.strictObject({ type: z.literal("ready"), protocol: z.literal(PROTOCOL) });
/** `quiet_ms`: a native call begins that may keep the worker from speaking for this long. */
export const Heartbeat = z.strictObject({
  type: z.literal("heartbeat"),
  quiet_ms: z.int().min(0).max(3_600_000).optional(),
});
export const Failed = z.strictObject({ type: z.literal("failed"), kind: z.enum(REPORTED), message: z.string() });
/** The last message. `result` is the path of the file that holds the outcome, if there is one. */
export const Done = z.strictObject({ type: z.literal("done"), result: z.string().optional() });

/** Server → worker: first of all, once. */
export const Start = z.strictObject({
  type: z.literal("start"),
  id: z.string(),
  parent_pid: z.int(),
  socket_path: z.string(), // where a worker that streams serves HTTP
  beat_ms: z.int().positive(),
});
export type Start = z.infer<typeof Start>;
/** Server → worker: finish what must be finished and exit. SIGTERM says the same. */
export const Stop = z.strictObject({ type: z.literal("stop"), reason: z.string() });

export const FromFake = z.discriminatedUnion("type", [
  Ready,
  Heartbeat,
  Failed,
  Done,
  z.strictObject({ type: z.literal("echo"), text: z.string() }),
  z.strictObject({ type: z.literal("serving") }),
  z.strictObject({ type: z.literal("spawned"), pid: z.int() }),
  z.strictObject({ type: z.literal("environment"), entries: z.array(z.string()) }),
]);
export type FromFake = z.infer<typeof FromFake>;

export const ToFake = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("echo"), text: z.string() }),
  z.strictObject({ type: z.literal("finish") }),
]);
export type ToFake = z.infer<typeof ToFake>;
