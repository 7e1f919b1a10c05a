import type { Ctx } from "../context.ts";

/**
 * For an answer that may take long: its silent connection is not closed. The socket still shows when the client has
 * left.
 */
export const keepOpen = (ctx: Ctx, request: Request) => ctx.state.http.listener?.timeout(request, 0);
