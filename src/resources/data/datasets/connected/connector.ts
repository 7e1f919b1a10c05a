/** Runs connector tasks. Each task gets a child process of its own, and few run at once. */
import { mkdirSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import type { Credentials, Source } from "../../../../lib/source.ts";
import { logRefusal } from "../../../../platform/network/dial_log.ts";
import type { Caller, Release } from "../../../../platform/semaphore.ts";
import { FromConnector, type ToConnector } from "../../../../workers/protocol.ts";

export type Refusal = { type: "refused"; code: string; message: string; param: string | null };
type Result = Extract<FromConnector, { type: "tested" | "validated" | "read" }>;
export type Outcome = Result | Refusal;
export type Progress = { rows: number; bytes: number; total_rows: number | null };
type Task = { type: "test" } | { type: "validate" } | { type: "read"; path: string };
type SourceAccess = { source: Source; credentials: Credentials };
type OnProgress = (progress: Progress) => void;

/** Never rejects: a failure is a `Refusal` with the reason. The credentials go to the child and nowhere else. */
export async function runTask(
  ctx: Ctx,
  caller: Caller,
  task: Task,
  access: SourceAccess,
  onProgress?: OnProgress,
): Promise<Outcome> {
  if (ctx.config.offline && access.source.source_type === "hf") return OFFLINE;
  const { checks, reads } = ctx.state.datasets;
  let release: Release | undefined;
  try {
    release = await (task.type === "read" ? reads : checks).acquire(caller);
    const message = messageFor(ctx, task, access);
    return task.type === "read"
      ? await runChild(ctx, message, caller.signal, onProgress)
      : await checkInTime(ctx, message, caller.signal);
  } catch (error) {
    if (caller.signal?.aborted) return CANCELLED;
    const code = error instanceof AppError ? error.code : "broken";
    return { type: "refused", code, message: (error as Error).message, param: null };
  } finally {
    release?.();
  }
}

/** Bounds the whole task: a source that sends a byte a minute must not hold its permit for ever. */
async function checkInTime(ctx: Ctx, task: ToConnector, signal: AbortSignal | undefined): Promise<Outcome> {
  const ms = 2 * ctx.config.connectors.validate_timeout_ms;
  const late = AbortSignal.timeout(ms);
  const outcome = await runChild(ctx, task, signal ? AbortSignal.any([signal, late]) : late);
  if (outcome !== CANCELLED || signal?.aborted) return outcome;
  const message = `The source did not answer within ${ms} ms, which is twice connectors.validate_timeout_ms`;
  return { type: "refused", code: "unreachable", message, param: null };
}

function messageFor(ctx: Ctx, task: Task, access: SourceAccess): ToConnector {
  const { network, connectors, datasets, hub } = ctx.config;
  const common = {
    ...access,
    network: { ...network, allow: [...network.allow] },
    hub_endpoint: hub.endpoint.replace(/\/+$/, ""),
    connect_ms: connectors.connect_timeout_ms,
    statement_ms: connectors.statement_timeout_ms,
    row_bytes: datasets.max_row_bytes,
  };
  if (task.type === "validate") return { ...task, ...common, count_ms: connectors.validate_timeout_ms };
  if (task.type === "test") return { ...task, ...common };
  const { min_bytes_per_second: bytes_per_second, min_rate_seconds: seconds } = connectors;
  return { ...task, ...common, min_rate: { bytes_per_second, seconds } };
}

function runChild(
  ctx: Ctx,
  task: ToConnector,
  signal: AbortSignal | undefined,
  onProgress?: OnProgress,
): Promise<Outcome> {
  return new Promise((done) => {
    if (signal?.aborted) return done(CANCELLED);
    let outcome: Outcome | undefined;
    const { ca_file } = task.network;
    const folder = task.type === "read" ? dirname(task.path) : undefined;
    if (folder !== undefined) mkdirSync(folder, { recursive: true, mode: 0o700 });
    const worker = ctx.supervisor.spawn<FromConnector, ToConnector>({
      kind: "connector",
      incoming: FromConnector,
      grants: { reads: ca_file === "" ? [] : [resolve(ca_file)], writes: folder === undefined ? [] : [folder] },
      onMessage(message) {
        if (message.type === "reading") onProgress?.(message);
        else if (message.type !== "ready" && message.type !== "heartbeat" && message.type !== "failed")
          if (message.type === "refused") outcome = refusalFrom(ctx, message);
          else if (message.type !== "done") outcome = message;
      },
      onExit({ message }) {
        signal?.removeEventListener("abort", stop);
        const cut: Refusal = {
          type: "refused",
          code: "broken",
          message: `Reading the source was interrupted: ${message}`,
          param: null,
        };
        done(outcome ?? (signal?.aborted ? CANCELLED : cut));
      },
    });
    const stop = () => void worker.stop("cancelled");
    signal?.addEventListener("abort", stop, { once: true });
    worker.send(task);
  });
}

/** The resolved address of a refused host goes to the log, not to the caller. */
function refusalFrom(ctx: Ctx, { refused, ...refusal }: Extract<FromConnector, { type: "refused" }>): Refusal {
  if (refused) logRefusal(ctx.log, refused.host, { code: refusal.code, detail: refused.detail });
  return refusal;
}

const CANCELLED: Refusal = {
  type: "refused",
  code: "cancelled",
  message: "Reading the source was cancelled",
  param: null,
};

const OFFLINE: Refusal = {
  type: "refused",
  code: "offline",
  message:
    "source_type hf is not available while offline = true: upload the rows, or connect a source in the local network",
  param: "/source_type",
};
