/**
 * Limits reads that take long or hold much, such as figures over all results. They count against no other limit: a GET
 * changes nothing. Workspaces take turns, and further reads are refused.
 */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { Semaphore } from "../../platform/semaphore.ts";

export const createLongReads = () => new Semaphore({ name: "long reads", permits: 4 });

type Reader = { workspaceId: string; signal?: AbortSignal };

export async function longRead<T>(ctx: Ctx, reader: Reader, read: () => Promise<T>): Promise<T> {
  const release = await ctx.state.http.longReads.acquire(reader);
  if (!release)
    throw new AppError("no_capacity", "Too many long reads wait already: send this one again soon", {
      retryAfterSeconds: 1,
    });
  try {
    return await read();
  } finally {
    release();
  }
}
