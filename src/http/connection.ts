import type { Ctx } from "../context.ts";

const listening = new WeakMap<Ctx["db"], Bun.Server<undefined>>();

/** The server that takes this context's requests. Where there are two, either knows the connection of any request. */
export const listensFor = (ctx: Ctx, server: Bun.Server<undefined>) => void listening.set(ctx.db, server);

export const listenerOf = (ctx: Pick<Ctx, "db">): Bun.Server<undefined> | undefined => listening.get(ctx.db);

/**
 * A request whose answer may take its time: its connection is not closed for being silent. A client that has gone
 * is noticed all the same, by its socket.
 */
export const keepOpen = (ctx: Ctx, request: Request) => listenerOf(ctx)?.timeout(request, 0);

const unbound = new WeakSet<Request>();

/** What this request is answered with does not depend on anything that was written: it need not wait for the disk. */
export const promisesNothing = (request: Request) => void unbound.add(request);

export const isPromise = (request: Request): boolean => !unbound.has(request);
