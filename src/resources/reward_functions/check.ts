/** Code is read by the sandbox before anything of it is kept: in a process that nobody has used and nobody else will. */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { LOAD_MS, type RewardCode } from "../../lib/rewards/contract.ts";
import type { Loaded } from "../../sandbox/reward/types.ts";
import { holding } from "./holding.ts";

/** Aborts when the client leaves or the server stops, whichever is first. */
export const leaving = (ctx: Ctx, request: Request) => AbortSignal.any([request.signal, ctx.closing]);

/** What is thrown into a wait that was given up means nothing by itself: this says why. */
export function gone(ctx: Ctx, signal: AbortSignal, error: unknown): unknown {
  if (!signal.aborted) return error;
  return ctx.closing.aborted
    ? new AppError("shutting_down", "The server is shutting down", { retryAfterSeconds: 5, cause: error })
    : new AppError("invalid_request", "The client left", { cause: error }); // nobody hears it
}

export async function check(
  ctx: Ctx,
  code: RewardCode,
  asker: { workspaceId: string; signal: AbortSignal },
): Promise<Loaded> {
  const { signal } = asker;
  try {
    return await holding(ctx, asker, 1, async () => {
      const process = await ctx.rewards.take(code.language, signal);
      const leave = () => void process.close();
      signal.addEventListener("abort", leave, { once: true });
      try {
        signal.throwIfAborted();
        const loaded = await process.load(code, LOAD_MS);
        signal.throwIfAborted(); // the end of a process that was closed reads as a rejection
        return loaded;
      } finally {
        signal.removeEventListener("abort", leave);
        await process.close();
      }
    });
  } catch (error) {
    throw gone(ctx, signal, error);
  }
}
