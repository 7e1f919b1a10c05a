import { type AnyElysia, Elysia } from "elysia";
import type { Ctx } from "../context.ts";
import { AppError } from "../lib/errors.ts";
import { openCommit, shareSnapshot, watchWrites } from "../platform/db/db.ts";
import { type ErrorAnswer, errorEnvelope, errorResponse, toAppError } from "./answer/errors.ts";
import { announcedLength } from "./answer/file_response.ts";
import { audit, isRead } from "./audit.ts";
import { isPromise } from "./connection.ts";
import { cors } from "./cors.ts";
import { requireHost } from "./host.ts";
import { bodyMemoryOf } from "./limits/body_memory.ts";
import { underWayOf } from "./limits/under_way.ts";
import { compilePlainReads } from "./plain_reads.ts";
import { lastRequestIdOf, logRequest, pathOf } from "./request_log.ts";
import { type Arrival, arrivalOf, createMeter } from "./request_metrics.ts";

export type Handler = (request: Request) => Response | Promise<Response>;

type Routes = (app: AnyElysia) => AnyElysia;
type Served = Handler & { app: AnyElysia };

/** The routes behind one function. Whatever happens inside, the answer has the envelope and a request id. */
export function createHandler(ctx: Ctx, routes: Routes, answers: ErrorAnswer = errorResponse): Served {
  // Or the router looks for the path from the 12th character on, and behind `Host: x` finds half of it.
  const handler = { standardHostname: false };
  const app: AnyElysia = routes(
    new Elysia({ aot: true, handler }).use(errorEnvelope(ctx, { answers, methodsOf: (path) => methodsOf(app, path) })),
  );
  const withCors = cors(ctx.config.http.cors_origins);

  compilePlainReads(app);
  const arrival = arrivalOf(ctx);
  const meter = createMeter(ctx, app);
  const memory = bodyMemoryOf(ctx);
  const underWay = underWayOf(ctx);

  function route(request: Request): Response | Promise<Response> {
    arrival.route = undefined;
    arrival.workspaceId = "";
    return app.fetch(request);
  }
  function finish(request: Request, answer: Response, startedAt: number, came: Arrival): Response {
    const response = withCors(request, answer);
    const id = lastRequestIdOf(request);
    response.headers.set("x-request-id", id);
    const length = request.method === "HEAD" ? announcedLength(request) : undefined;
    if (length !== undefined) response.headers.set("content-length", String(length));
    logRequest(ctx.log, request, id, response.status, startedAt);
    meter(request, response.status, startedAt, came);
    return response;
  }
  /** A write, or a read that has to wait for something. `begun`: the read that turned out to be one. */
  async function handleLater(request: Request, startedAt: number, begun?: Promise<Response>): Promise<Response> {
    let answer: Response;
    let came: Arrival = begun ? { ...arrival } : NOWHERE;
    try {
      const reads = isRead(request);
      if (reads && !begun) await openCommit(ctx.db)?.catch(() => {}); // nobody is told what may yet be lost
      const written = reads ? undefined : watchWrites(ctx.db);
      const answering = begun ?? route(request);
      if (!begun) came = { ...arrival };
      answer = await answering;
      const refused = answer.status >= 400;
      if (!reads && !refused) audit(ctx, request, answer.status, came.route); // in one commit with what was done, if it still is open
      if (isPromise(request)) await written?.(); // acknowledged means on the disk
      if (!reads && refused) audit(ctx, request, answer.status, came.route);
    } catch (error) {
      answer = answers(toAppError(ctx, error, request), request);
    } finally {
      memory.release(request);
      underWay.leave(request);
    }
    return finish(request, answer, startedAt, came);
  }
  const handle: Handler = (request) => {
    const startedAt = performance.now();
    try {
      admissible(ctx, request);
      shareSnapshot(ctx.db);
      if (!isRead(request) || openCommit(ctx.db)) return handleLater(request, startedAt);
      const answer = route(request);
      if (!(answer instanceof Response)) return handleLater(request, startedAt, answer);
      return finish(request, answer, startedAt, arrival);
    } catch (error) {
      return finish(request, answers(toAppError(ctx, error, request), request), startedAt, NOWHERE);
    }
  };
  return Object.assign(handle, { app });
}

const NOWHERE: Arrival = { route: undefined, workspaceId: "" };

function admissible(ctx: Ctx, request: Request) {
  requireHost(request);
  if (ctx.closing.aborted)
    throw new AppError("shutting_down", "The server is shutting down", {
      retryAfterSeconds: 5,
      headers: { connection: "close" },
    });
  if (!isDecodable(request.url)) throw new AppError("route_not_found", "The path is not valid percent-encoded UTF-8");
}

function isDecodable(url: string): boolean {
  if (!url.includes("%")) return true;
  try {
    return !decodeURIComponent(pathOf(url)).includes("\0");
  } catch {
    return false;
  }
}

/** Which methods a path takes; asked only when no route fitted, to tell 405 from 404. */
function methodsOf(app: AnyElysia, path: string): string[] {
  const segments = path.split("/");
  const fits = (pattern: string) => {
    const parts = pattern.split("/");
    const open = parts.at(-1) === "*";
    if (open ? segments.length < parts.length : segments.length !== parts.length) return false;
    return parts.every((part, i) => part === "*" || (part.startsWith(":") ? segments[i] !== "" : part === segments[i]));
  };
  return [...new Set(app.routes.filter((route) => fits(route.path)).map((route) => route.method))].sort();
}
