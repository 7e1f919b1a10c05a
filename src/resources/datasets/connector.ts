/** The server's side of the connector: one child for one task, a few at a time. */
import type { Ctx } from "../../context.ts";
import { oncePer } from "../../lib/once_per.ts";
import type { Credentials, Source } from "../../lib/source.ts";
import { FromConnector, type ToConnector } from "../../workers/protocol.ts";

export type Refusal = { type: "refused"; code: string; message: string; param: string | null };
type Told = Extract<FromConnector, { type: "tested" | "validated" | "read" }>;
export type Outcome = Told | Refusal;
export type Progress = { rows: number; bytes: number; total_rows: number | null };
type What = { type: "test" } | { type: "validate" } | { type: "read"; path: string };
type Options = { signal?: AbortSignal; onProgress?: (progress: Progress) => void };

const MOST_AT_ONCE = 4;

const seatsOf = oncePer((_db: Ctx["db"]) => ({ free: MOST_AT_ONCE, waiting: [] as (() => void)[] }));

/** Never rejects: what goes wrong is a refusal that says what. The credentials go to the child and nowhere else. */
export async function runTask(
  ctx: Ctx,
  what: What,
  given: { source: Source; credentials: Credentials },
  options: Options = {},
): Promise<Outcome> {
  const seats = seatsOf(ctx.db);
  if (seats.free > 0) seats.free--;
  else await new Promise<void>((sit) => seats.waiting.push(sit));
  try {
    return await runChild(ctx, taskOf(ctx, what, given), options);
  } catch (error) {
    return { type: "refused", code: "broken", message: (error as Error).message, param: null };
  } finally {
    const next = seats.waiting.shift();
    if (next) next();
    else seats.free++;
  }
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
    const worker = ctx.supervisor.spawn<FromConnector, ToConnector>({
      kind: "connector",
      incoming: FromConnector,
      onMessage(message) {
        if (message.type === "reading") onProgress?.(message);
        else if (message.type !== "ready" && message.type !== "heartbeat" && message.type !== "failed")
          if (message.type !== "done") outcome = message;
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

const CANCELLED: Refusal = { type: "refused", code: "cancelled", message: "It was cancelled", param: null };
