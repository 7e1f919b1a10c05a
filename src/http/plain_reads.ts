import type { AnyElysia } from "elysia";

type Hook = { fn: unknown; isAsync?: boolean };

const isAsyncFunction = (fn: unknown) => Object.prototype.toString.call(fn) !== "[object Function]";

/**
 * Elysia guesses from a function's source text whether it may return a promise (`=> f(` looks like one) and then
 * compiles the whole route as async, which costs a plain read a tenth of its time (docs/log.md). Ours are async only
 * where they say so, and a promise that comes back all the same is awaited further out. So the guess is taken away:
 * hooks are marked, and a handler shows its text with a second blank, where the guess does not look.
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
