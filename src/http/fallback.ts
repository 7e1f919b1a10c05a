import { type AnyElysia, Elysia } from "elysia";
import type { Ctx } from "../context.ts";
import { AppError } from "../lib/errors.ts";
import { pathOf } from "../lib/net/request_target.ts";
import { isOfRoute } from "../lib/route_names.ts";
import { requireKeyFor } from "./auth.ts";

/** The page at an address; undefined: the address or the caller is not one for pages. */
export type PageFor = (request: Request, path: string) => Promise<Response> | undefined;

/** The router tries these routes last, for requests that no other one takes. */
export const ANY = "ALL";

/**
 * The last route of a group: 405 for a path of other methods, a page for a browser, and 401 or 404 for the rest. A
 * function plugin gets the application that it is mounted on, whose routes are complete by the first request.
 */
export const fallback =
  (ctx: Ctx, pageFor?: PageFor) =>
  (app: AnyElysia): AnyElysia =>
    app.use(
      new Elysia().all(
        "/*",
        ({ request }) => {
          const path = pathOf(request);
          requireOtherPath(app, path);
          const page = pageFor?.(request, path);
          if (page) return page;
          requireKeyFor(ctx, request, path);
          throw absentModel(path) ?? noRoute(request, path, pageFor !== undefined);
        },
        { parse: "none" },
      ),
    );

/** Throws if the path has routes: then only the method is wrong. */
function requireOtherPath(app: AnyElysia, path: string) {
  const methods = methodsOf(app, path).join(", ");
  if (methods !== "")
    throw new AppError("method_not_allowed", `${path} takes ${methods}`, { headers: { allow: methods } });
}

function noRoute({ method }: Request, path: string, hasPages: boolean): AppError {
  const family = ABSENT_FAMILIES.find(([pattern]) => pattern.test(path))?.[1];
  if (family !== undefined) return new AppError("route_not_found", `This server ${family}`);
  const where = baseHint(path) ?? (hasPages ? "; see /docs" : " on this port");
  return new AppError("route_not_found", `No route ${method} ${path}${where}`);
}

/** The base URL of a client ends with more than /v1. */
function baseHint(path: string): string | undefined {
  const isTwice =
    /^\/v1\/(?:v1\/|.*(?:completions|responses|embeddings|messages)\/(?:chat|completions|responses|embeddings|messages|models)\b)/;
  return isTwice.test(path)
    ? ": the base URL of a client of OpenAI ends with /v1, and with nothing after it"
    : undefined;
}

function methodsOf({ routes }: AnyElysia, path: string): string[] {
  const fitting = routes.filter((route) => route.method !== ANY && isOfRoute(route.path, path));
  return [...new Set(fitting.map(({ method }) => method))].sort();
}

/** Routes of OpenAI that need a model of a kind that cannot be served here. Its clients read why. */
const ABSENT_KINDS: readonly [path: RegExp, what: string][] = [
  [/^\/v1\/audio\/(?:transcriptions|translations)$/, "hears audio"],
  [/^\/v1\/audio\/speech$/, "speaks"],
  [/^\/v1\/images\/(?:generations|edits|variations)$/, "makes images"],
  [/^\/v1\/videos(?:\/|$)/, "makes videos"],
];

/** Families of OpenAI that this server lacks, and the way to the same end. */
const ABSENT_FAMILIES: readonly [path: RegExp, words: string][] = [
  [
    /^\/v1\/(?:assistants|threads)(?:\/|$)/,
    "has no assistants and threads. Use agents, and responses with a conversation",
  ],
  [/^\/v1\/skills(?:\/|$)/, "keeps no skills. Put their text into the instructions of an agent"],
  [/^\/v1\/realtime(?:\/|$)/, "speaks over no open connection. Use chat or responses with a stream"],
];

/** Undefined: OpenAI has no such route, or it is served. */
function absentModel(path: string): AppError | undefined {
  const what = ABSENT_KINDS.find(([pattern]) => pattern.test(path))?.[1];
  if (what === undefined) return undefined;
  const message = `model: no model that ${what} can be served here: models read and write text`;
  return new AppError("resource_not_found", message, { param: "/model" });
}
