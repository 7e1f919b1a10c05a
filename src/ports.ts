/** The ports that the server listens on. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Ctx } from "./context.ts";
import { type ErrorAnswer, toAppError } from "./http/answer/errors.ts";
import { redirectToHttps } from "./http/answer/redirect.ts";
import { createHandler, type Handler } from "./http/server.ts";
import { UsageError } from "./lib/errors.ts";
import { formatListen, type Listen, parseListen } from "./lib/net/listen.ts";
import { noSniff } from "./lib/net/no_sniff.ts";
import { pathOf } from "./lib/net/request_target.ts";
import { limitConnections } from "./native/shim/shim.ts";
import type { Config } from "./platform/config/config.ts";
import { descriptorsOf, mostConnections } from "./platform/machine/descriptors.ts";
import { challengeAnswer } from "./platform/tls/challenges.ts";
import { readTlsPair, serveOptions, type TlsPair } from "./platform/tls/pair.ts";
import { DETECTION_PORT, mainPort } from "./routes.ts";

export type Listener = Bun.Server<undefined>;

type Port = {
  at: Listen | { unix: string };
  handle: Handler;
  answers: ErrorAnswer;
  /** The flag or setting that chooses another port. */
  setting: string;
  tls?: TlsPair | undefined;
};

/**
 * Opens one port for everything and, where `detect.port` is set, one for detection alone. With TLS there is also a socket
 * for the commands of this machine, which need no certificate then, and the port that redirects to https.
 */
export function openPorts(ctx: Ctx, listeners: Listener[]) {
  const pair = readTlsPair(ctx.config.http);
  const ports = portsOf(ctx);
  for (const port of ports.filter((each) => each !== undefined)) listeners.push(listen(ctx, { ...port, tls: pair }));
  ctx.state.http.listener = listeners[0];
  if (pair === undefined) return;
  const [all] = ports;
  const unix = socketPathOf(ctx.config);
  if (unix !== undefined) {
    rmSync(unix, { force: true }); // a killed server leaves it
    listeners.push(listen(ctx, { ...all, at: { unix } }));
  }
  const at = parseListen(ctx.config.http.redirect_listen);
  const handle: Handler = (request) => {
    const proof = challengeAnswer(ctx.config.data_dir, pathOf(request));
    return noSniff(proof === undefined ? redirectToHttps(ctx, request) : new Response(proof));
  };
  if (at) listeners.push(listen(ctx, { ...all, at, handle, setting: "http.redirect_listen" }));
  ctx.state.http.renewTls = renewal(ctx, listeners, ports, pair);
}

/**
 * Keeps descriptors for files and workers, whatever connections come. Bun starts its HTTP client with the first request,
 * and ends the process if there is no descriptor for it then: so it starts now.
 */
export async function reserveDescriptors(ctx: Ctx): Promise<void> {
  await fetch("http://localhost/", { unix: "/dev/null/none" }).catch(() => {});
  const { soft = Number.POSITIVE_INFINITY } = descriptorsOf() ?? {};
  if (soft === Number.POSITIVE_INFINITY) return;
  const most = mostConnections(soft);
  const refused = limitConnections(ctx.config.data_dir, most);
  if (refused) ctx.state.http.connections = { most, refused };
  else ctx.log.warn("Connections cannot be limited: many at once may leave no file descriptor for other work");
}

const SUN_PATH_BYTES = 107; // sockaddr_un holds 108 with the final NUL

/** Undefined without TLS, or where the path is too long for a socket. */
export function socketPathOf({ http, data_dir }: Config): string | undefined {
  const path = join(data_dir, "run", "server.sock");
  return http.tls_cert === "" || Buffer.byteLength(path) > SUN_PATH_BYTES ? undefined : path;
}

function portsOf(ctx: Ctx): [all: Port, detection?: Port] {
  const at = parseListen(ctx.config.http.listen) ?? { hostname: "127.0.0.1", port: 0 };
  const main = mainPort(ctx);
  const all: Port = { at, handle: createHandler(ctx, main), answers: main.answers, setting: "--listen" };
  const { port } = ctx.config.detect;
  if (port < 0) return [all];
  const handle = createHandler(ctx, DETECTION_PORT);
  return [all, { at: { ...at, port }, handle, answers: DETECTION_PORT.answers, setting: "detect.port" }];
}

function listen(ctx: Ctx, { at, handle, answers, setting, tls }: Port): Listener {
  const options = {
    development: false,
    maxRequestBodySize: Number.MAX_SAFE_INTEGER, // each route has its own limit and answers with the envelope
    fetch: (request: Request) => handle(request),
    error: (error: Error) => {
      const unknown = new Request("http://localhost/");
      return noSniff(answers(toAppError(ctx, error, unknown), unknown));
    },
  };
  if ("unix" in at) return Bun.serve({ ...options, ...at });
  try {
    return Bun.serve({
      ...options,
      ...at,
      idleTimeout: ctx.config.http.idle_timeout_seconds,
      reusePort: false, // the default lets a second program share the port in silence
      ...(tls ? { tls: serveOptions(tls) } : {}),
    });
  } catch (error) {
    if ((error as { code?: unknown }).code !== "EADDRINUSE") throw error;
    throw new UsageError(`${formatListen(at)} is in use by another program: stop it or choose another with ${setting}`);
  }
}

/**
 * `Bun.serve` cannot change the certificate of a listener (`reload` ignores `tls`). So the listener is replaced on the
 * same port, in one turn of the event loop. Open connections end with the old one when their requests are answered.
 */
function renewal(ctx: Ctx, listeners: Listener[], ports: readonly (Port | undefined)[], first: TlsPair): () => void {
  let current = first;
  const replace = (i: number, port: Port, tls: TlsPair) => {
    const old = listeners[i] as Listener;
    const at = { ...(port.at as Listen), port: old.port ?? 0 };
    void old.stop().finally(() => void remove(listeners, old));
    if (!listeners.includes(old, ports.length)) listeners.push(old); // a shutdown waits for its requests too
    listeners[i] = listen(ctx, { ...port, at, tls });
  };
  return () => {
    const pair = readTlsPair(ctx.config.http);
    if (pair === undefined || pair.version === current.version) return;
    for (const [i, port] of ports.entries()) if (port) replace(i, port, pair);
    ctx.state.http.listener = listeners[0];
    current = pair;
    ctx.log.info("the certificate was renewed", { subject: pair.leaf.subject, valid_to: pair.leaf.validTo });
  };
}

function remove(listeners: Listener[], old: Listener) {
  const at = listeners.lastIndexOf(old);
  if (at > 0) listeners.splice(at, 1);
}

/** Clients that stall are cut off when `signal` aborts. */
export async function stopListening(listeners: readonly Listener[], signal: AbortSignal): Promise<void> {
  const each = (stop: (listener: Listener) => Promise<void>) => Promise.all([...listeners].map(stop));
  signal.addEventListener("abort", () => void each((listener) => listener.stop(true)), { once: true });
  await each((listener) => listener.stop());
}
