/** The server's side of the connector: one child for one task, a few at a time. */
import { mkdirSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Ctx } from "../../../context.ts";
import { oncePer } from "../../../lib/once_per.ts";
import type { Credentials, Source } from "../../../lib/source.ts";
import { logRefusal } from "../../../platform/network/dial_log.ts";
import { FromConnector, type ToConnector } from "../../../workers/protocol.ts";

export type Refusal = { type: "refused"; code: string; message: string; param: string | null };
type Told = Extract<FromConnector, { type: "tested" | "validated" | "read" }>;
export type Outcome = Told | Refusal;
export type Progress = { rows: number; bytes: number; total_rows: number | null };
type What = { type: "test" } | { type: "validate" } | { type: "read"; path: string };
type Options = { signal?: AbortSignal; onProgress?: (progress: Progress) => void };

const MOST_AT_ONCE = 4;

/** Readings take hours: who only looks at a source does not wait for them. */
const seatsOf = oncePer((_db: Ctx["db"]) => ({ looks: createSeats(MOST_AT_ONCE), reads: createSeats(MOST_AT_ONCE) }));

/** Never rejects: what goes wrong is a refusal that says what. The credentials go to the child and nowhere else. */
export async function runTask(
  ctx: Ctx,
  what: What,
  given: { source: Source; credentials: Credentials },
  options: Options = {},
): Promise<Outcome> {
  if (ctx.config.offline && given.source.source_type === "hf") return OFFLINE;
  const { looks, reads } = seatsOf(ctx.db);
  const leave = await (what.type === "read" ? reads : looks).take(options.signal);
  if (!leave) return CANCELLED;
  try {
    const task = taskOf(ctx, what, given);
    return what.type === "read" ? await runChild(ctx, task, options) : await lookInTime(ctx, task, options);
  } catch (error) {
    return { type: "refused", code: "broken", message: (error as Error).message, param: null };
  } finally {
    leave();
  }
}

/** A source that answers and answers, or a byte a minute, must not keep its place for ever. */
async function lookInTime(ctx: Ctx, task: ToConnector, { signal }: Options): Promise<Outcome> {
  const ms = 2 * ctx.config.connectors.validate_timeout_ms;
  const late = AbortSignal.timeout(ms);
  const outcome = await runChild(ctx, task, { signal: signal ? AbortSignal.any([signal, late]) : late });
  if (outcome !== CANCELLED || signal?.aborted) return outcome;
  const message = `Looking at the source took longer than ${ms} ms, which is twice connectors.validate_timeout_ms`;
  return { type: "refused", code: "unreachable", message, param: null };
}

type Leave = () => void;

function createSeats(count: number) {
  let free = count;
  const waiting = new Set<() => void>();
  const leave: Leave = () => {
    const [next] = waiting;
    if (!next) free++;
    else next();
  };
  return {
    /** Undefined: given up while waiting. */
    async take(signal?: AbortSignal): Promise<Leave | undefined> {
      if (signal?.aborted) return undefined;
      if (free > 0) {
        free--;
        return leave;
      }
      return await new Promise<Leave | undefined>((done) => {
        const end = (seat?: Leave) => {
          waiting.delete(sit);
          signal?.removeEventListener("abort", go);
          done(seat);
        };
        const sit = () => end(leave);
        const go = () => end();
        waiting.add(sit);
        signal?.addEventListener("abort", go, { once: true });
      });
    },
  };
}

function taskOf(ctx: Ctx, what: What, given: { source: Source; credentials: Credentials }): ToConnector {
  const { network, connectors, datasets, hub } = ctx.config;
  const common = {
    ...given,
    network: { ...network, allow: [...network.allow] },
    hub_endpoint: hub.endpoint.replace(/\/+$/, ""),
    connect_ms: connectors.connect_timeout_ms,
    statement_ms: connectors.statement_timeout_ms,
    row_bytes: datasets.max_row_bytes,
  };
  return what.type === "validate"
    ? { ...what, ...common, count_ms: connectors.validate_timeout_ms }
    : { ...what, ...common };
}

function runChild(ctx: Ctx, task: ToConnector, { signal, onProgress }: Options): Promise<Outcome> {
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
          message: `The reading was cut off: ${message}`,
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

/** The caller gets no resolved address; the log does. */
function refusalFrom(ctx: Ctx, { refused, ...refusal }: Extract<FromConnector, { type: "refused" }>): Refusal {
  if (refused) logRefusal(ctx.log, refused.host, { code: refusal.code, detail: refused.detail });
  return refusal;
}

const CANCELLED: Refusal = { type: "refused", code: "cancelled", message: "It was cancelled", param: null };

const OFFLINE: Refusal = {
  type: "refused",
  code: "offline",
  message: "offline = true forbids to dial the hub: upload the rows, or put them where this machine may read them",
  param: "/source_type",
};
