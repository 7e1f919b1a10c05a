import type { Ctx } from "../context.ts";

/**
 * A request whose answer may take its time: its connection is not closed for being silent. A client that has gone
 * is noticed all the same, by its socket.
 */
export const keepOpen = (ctx: Ctx, request: Request) => ctx.state.http.listener?.timeout(request, 0);

const unbound = new WeakSet<Request>();

/** What this request is answered with does not depend on anything that was written: it need not wait for the disk. */
export const promisesNothing = (request: Request) => void unbound.add(request);

export const isPromise = (request: Request): boolean => !unbound.has(request);
