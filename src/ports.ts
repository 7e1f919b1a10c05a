/** The ports that the server listens on. */
import type { Ctx } from "./context.ts";
import { type ErrorAnswer, errorResponse, toAppError } from "./http/answer/errors.ts";
import { serviceErrorResponse } from "./http/answer/service_errors.ts";
import { createHandler, type Handler } from "./http/server.ts";
import { UsageError } from "./lib/errors.ts";
import { formatListen, type Listen, parseListen } from "./lib/net/listen.ts";
import { pageFor } from "./resources/dashboard/service.ts";
import { mount, mountDetection } from "./routes.ts";

export type Listener = Bun.Server<undefined>;

type Port = {
  at: Listen;
  handle: Handler;
  answers: ErrorAnswer;
  /** The flag or setting that chooses another port. */
  setting: string;
};

/** One port for everything and, where `detect.port` is set, one for detection alone. */
export const listenAll = (ctx: Ctx): Listener[] => portsOf(ctx).map((port) => listen(ctx, port));

function portsOf(ctx: Ctx): Port[] {
  const at = parseListen(ctx.config.http.listen) ?? { hostname: "127.0.0.1", port: 0 };
  const all: Port = {
    at,
    handle: createHandler(ctx, mount(ctx), { pageFor: pageFor(ctx) }),
    answers: errorResponse,
    setting: "--listen",
  };
  const { port } = ctx.config.detect;
  if (port < 0) return [all];
  const answers = serviceErrorResponse;
  const handle = createHandler(ctx, mountDetection(ctx), { answers });
  return [all, { at: { ...at, port }, handle, answers, setting: "detect.port" }];
}

function listen(ctx: Ctx, { at, handle, answers, setting }: Port): Listener {
  try {
    return Bun.serve({
      ...at,
      development: false,
      reusePort: false, // the default lets a second program share the port in silence
      idleTimeout: ctx.config.http.idle_timeout_seconds,
      maxRequestBodySize: Number.MAX_SAFE_INTEGER, // each route has its own limit and answers with the envelope
      fetch: (request) => handle(request),
      error: (error) => {
        const unknown = new Request("http://localhost/");
        return answers(toAppError(ctx, error, unknown), unknown);
      },
    });
  } catch (error) {
    if ((error as { code?: unknown }).code !== "EADDRINUSE") throw error;
    throw new UsageError(`${formatListen(at)} is in use by another program: stop it or choose another with ${setting}`);
  }
}

/** Clients that stall are cut off when `signal` aborts. */
export async function stopListening(listeners: readonly Listener[], signal: AbortSignal): Promise<void> {
  const each = (stop: (listener: Listener) => Promise<void>) => Promise.all(listeners.map(stop));
  signal.addEventListener("abort", () => void each((listener) => listener.stop(true)), { once: true });
  await each((listener) => listener.stop());
}
