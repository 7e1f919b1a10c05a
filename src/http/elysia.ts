/**
 * Workarounds for Elysia. Each item has a test in elysia.test.ts that shows plain Elysia at fault, and that fails once
 * a new version makes the item needless.
 *
 * 1. `ROUTER` below: the router assumes that a host has at least four characters.
 * 2. `asks` in query.ts: a query value is split at commas and read as JSON.
 * 3. `announceLength` below: the answer to HEAD announces the length of the empty body.
 * 4. `takes` in auth.ts: bodies are parsed before `derive`, so a route with a body admits its caller in the parser.
 * 5. `compilePlainReads` below: a handler that calls a function is compiled as asynchronous.
 * 6. `leaveBodies` below: a handler that passes its whole context on gets its body parsed, before the caller is known.
 */
import type { AnyElysia } from "elysia";
import { stateOf } from "./request_state.ts";

/** Without `standardHostname: false` the path is searched from the 12th character on, which cuts it for `Host: x`. */
export const ROUTER = { aot: true, handler: { standardHostname: false } };

/** With TLS the path is searched from the 12th character on: from the 8th, the second slash of `https://` is found. */
export const TLS_ROUTER = { aot: true, handler: { standardHostname: true } };
/** The shortest Host for which that is right, also for `http://` over the socket. */
export const TLS_HOST_LENGTH = 4;

/** Elysia answers HEAD by the route of GET. A length of ours spares the server from reading the whole file for it. */
export function announceLength(request: Request, response: Response) {
  const length = request.method === "HEAD" ? stateOf(request).announcedLength : undefined;
  if (length !== undefined) response.headers.set("content-length", String(length));
}

/**
 * The body of a route that says neither `takes` nor `parse` is not read. Reads stay as they are: a parser, even this one,
 * would make a plain read asynchronous. Call it when all routes are mounted.
 */
export function leaveBodies(app: AnyElysia) {
  for (const { method, hooks } of app.routes) if (method !== "GET") hooks.parse ??= [{ fn: "none" }];
}

type Hook = { fn: unknown; isAsync?: boolean };

const isAsyncFunction = (fn: unknown) => Object.prototype.toString.call(fn) !== "[object Function]";

/**
 * Elysia guesses from the source text whether a function may return a promise (`=> f(` looks like one) and then compiles
 * the whole route as asynchronous. That costs a plain read up to 8 % of its processor time (103 against 95 µs; all figures
 * and the ways around it are in docs/adr/0075-elysia.md). Here only async functions are asynchronous, and the caller
 * awaits a promise that comes back all the same. So hooks are marked, and a handler shows its text with a second blank,
 * which the guess does not match.
 * Call it when all routes are mounted, before the first request compiles them.
 */
export function compilePlainReads(app: AnyElysia) {
  for (const { handler, hooks } of app.routes) {
    for (const hook of [hooks.transform, hooks.beforeHandle].flat() as (Hook | undefined)[])
      if (hook && !isAsyncFunction(hook.fn)) hook.isAsync = false;
    if (typeof handler !== "function" || isAsyncFunction(handler)) continue;
    const text = handler.toString().replaceAll(/(return|=>)\s?(?=\S)/g, "$1  ");
    Object.defineProperty(handler, "toString", { value: () => text });
  }
}
