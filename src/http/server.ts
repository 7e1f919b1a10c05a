import type { AnyElysia } from "elysia";
import type { Ctx } from "../context.ts";
import { AppError } from "../lib/errors.ts";
import { noSniff } from "../lib/net/no_sniff.ts";
import { isOverTls, pathOf, requirePlainTarget } from "../lib/net/request_target.ts";
import { openCommit, watchWrites } from "../platform/db/db.ts";
import { shareSnapshot } from "../platform/db/snapshot.ts";
import type { Log } from "../platform/log.ts";
import { enter, leave } from "../platform/turn_watch.ts";
import { followAlias } from "./answer/aliases.ts";
import { speaksAnthropic } from "./answer/anthropic.ts";
import { toAppError } from "./answer/errors.ts";
import { audit, isRead } from "./audit.ts";
import { awaitTurn } from "./auth.ts";
import { cors } from "./cors.ts";
import { announceLength, TLS_HOST_LENGTH } from "./elysia.ts";
import { requireHost } from "./host.ts";
import { createMeter } from "./request_metrics.ts";
import { requestIdOf, stateOf } from "./request_state.ts";
import { followRollout } from "./rollouts.ts";
import { type AllRoutes, openGroups, type Port } from "./route_groups.ts";
import { showWarnings } from "./warnings.ts";

export type Handler = (request: Request) => Response | Promise<Response>;

type Served = Handler & { routes: AllRoutes };
/** A group of routes, or its loading. */
type Serving = AnyElysia | Promise<AnyElysia>;

/** The routes of a port as one function. Every answer has a request id, and every error has the envelope. */
export function createHandler(ctx: Ctx, port: Port): Served {
  const { answers } = port;
  const groups = openGroups(ctx, port);
  const withCors = cors(ctx.config.http.cors_origins);
  const { hsts_seconds: hsts, tls_cert: cert } = ctx.config.http;
  const sendsHsts = cert !== "" && hsts > 0;

  const meter = createMeter(ctx, groups.routesAt);
  const { bodyMemory, underWay, turns } = ctx.state.http;

  function finish(request: Request, answer: Response): Response {
    const response = noSniff(withCors(request, answer));
    response.headers.set("x-request-id", requestIdOf(request));
    if (speaksAnthropic(request)) response.headers.set("request-id", requestIdOf(request)); // its SDKs read this name
    if (sendsHsts && isOverTls(request)) response.headers.set("strict-transport-security", `max-age=${hsts}`);
    announceLength(request, response);
    showWarnings(request, response);
    logRequest(ctx.log, request, response.status);
    meter.count(request, response.status);
    leave(request);
    return response;
  }
  /** A write, or a read that has to wait. `begun`: the read that turned out to have to. */
  async function handleLater(
    request: Request,
    group: Serving,
    begun?: Response | Promise<Response>,
  ): Promise<Response> {
    let answer: Response;
    try {
      const reads = isRead(request);
      const app = group instanceof Promise ? await group : group;
      if (!begun && turns.isBusy && (reads || request.body === null)) await awaitTurn(ctx, request);
      if (reads && !begun) await openCommit(ctx.db)?.catch(() => {}); // an answer must not show what may yet be lost
      const written = watchWrites(ctx.db);
      answer = await (begun ?? app.fetch(request));
      const failed = answer.status >= 400;
      if (!reads && !failed) audit(ctx, request, answer.status); // in one commit with the change, if it still is open
      if (begun instanceof Response)
        await written(); // a read that wrote: what it shows must survive
      else if (reads) await openCommit(ctx.db);
      else if (stateOf(request).needsFlush) await written(); // acknowledged means on the disk
      if (!reads && failed) audit(ctx, request, answer.status);
    } catch (error) {
      answer = answers(toAppError(ctx, error, request), request);
    } finally {
      bodyMemory.release(request);
      underWay.leave(request);
    }
    return finish(request, answer);
  }
  const handle: Handler = (request) => {
    stateOf(request); // the time of arrival
    enter(request, meter.nameOf);
    try {
      admissible(ctx, request);
      followRollout(request);
      followAlias(request);
      shareSnapshot(ctx.db);
      const group = groups.at(pathOf(request));
      if (group instanceof Promise || !isRead(request) || openCommit(ctx.db) || turns.isBusy)
        return handleLater(request, group);
      const begunAt = performance.now();
      const answer = group.fetch(request);
      const workspaceId = stateOf(request).principal?.workspaceId;
      if (workspaceId !== undefined) turns.charge(workspaceId, performance.now() - begunAt);
      if (answer instanceof Response && !openCommit(ctx.db)) return finish(request, answer);
      return handleLater(request, group, answer);
    } catch (error) {
      return finish(request, answers(toAppError(ctx, error, request), request));
    }
  };
  return Object.assign(handle, { routes: groups.all });
}

function admissible(ctx: Ctx, request: Request) {
  requireHost(request, ctx.config.http.tls_cert === "" ? 1 : TLS_HOST_LENGTH);
  if (ctx.closing.aborted)
    throw new AppError("shutting_down", "The server is shutting down", {
      retryAfterSeconds: 5,
      headers: { connection: "close" },
    });
  requirePlainTarget(request);
}

/** Path only: a query may hold a signed URL's signature or a setup token. */
function logRequest(log: Log, request: Request, status: number) {
  if (log.level !== "debug") return;
  log.debug("request", {
    request_id: requestIdOf(request),
    method: request.method,
    path: pathOf(request),
    status,
    ms: Math.round((performance.now() - stateOf(request).startedAt) * 100) / 100,
  });
}
