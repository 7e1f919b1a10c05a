import { type AnyElysia, Elysia } from "elysia";
import type { Ctx } from "../context.ts";
import { AppError } from "../lib/errors.ts";
import { openCommit, shareSnapshot, watchWrites } from "../platform/db.ts";
import { cors } from "./cors.ts";
import { errorEnvelope, errorResponse, toAppError } from "./errors.ts";
import { logRequest, pathOf, requestIdOf } from "./request_log.ts";

export type Handler = (request: Request) => Promise<Response>;

/** The routes behind one function. Whatever happens inside, the answer has the envelope and a request id. */
export function createHandler(ctx: Ctx, routes: (app: AnyElysia) => AnyElysia): Handler & { app: AnyElysia } {
  // Or the router looks for the path from the 12th character on, and behind `Host: x` finds half of it.
  const handler = { standardHostname: false };
  const app: AnyElysia = routes(
    new Elysia({ aot: true, handler }).use(errorEnvelope(ctx, (path) => methodsOf(app, path))),
  );
  const withCors = cors(ctx.config.http.cors_origins);

  const handle: Handler = async (request) => {
    const startedAt = performance.now();
    let answer: Response;
    try {
      admissible(ctx, request);
      const reads = request.method === "GET" || request.method === "HEAD";
      const open = reads && openCommit(ctx.db);
      if (open) await open.catch(() => {}); // nobody is told what may yet be lost
      shareSnapshot(ctx.db);
      const written = reads ? undefined : watchWrites(ctx.db);
      answer = await app.fetch(request);
      if (written) await written(); // acknowledged means on the disk
    } catch (error) {
      answer = errorResponse(toAppError(ctx, error, request));
    }
    const response = withCors(request, answer);
    response.headers.set("x-request-id", requestIdOf(request));
    logRequest(ctx.log, request, response.status, startedAt);
    return response;
  };
  return Object.assign(handle, { app });
}

function admissible(ctx: Ctx, request: Request) {
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
