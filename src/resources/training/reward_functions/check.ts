/** Loads code in the sandbox before it is stored, in a process that runs nothing else. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { LOAD_MS, type RewardCode } from "../../../lib/rewards/contract.ts";
import type { Loaded } from "../../../sandbox/reward/types.ts";
import { withProcesses } from "./processes.ts";

/** Aborts when the client disconnects or the server stops. */
export const callerSignal = (ctx: Ctx, request: Request) => AbortSignal.any([request.signal, ctx.closing]);

/** After an abort the thrown error is noise. Returns the real cause: client disconnected, or server stopping. */
export function abortCause(ctx: Ctx, signal: AbortSignal, error: unknown): unknown {
  if (!signal.aborted) return error;
  return ctx.closing.aborted
    ? new AppError("shutting_down", "The server is shutting down", { retryAfterSeconds: 5, cause: error })
    : new AppError("invalid_request", "The client disconnected", { cause: error });
}

export async function check(
  ctx: Ctx,
  code: RewardCode,
  caller: { workspaceId: string; signal: AbortSignal },
): Promise<Loaded> {
  const { signal } = caller;
  try {
    return await withProcesses(ctx, caller, 1, async () => {
      const process = await ctx.rewards.take(code.language, signal);
      const close = () => void process.close();
      signal.addEventListener("abort", close, { once: true });
      try {
        signal.throwIfAborted();
        const loaded = await process.load(code, LOAD_MS);
        signal.throwIfAborted(); // a closed process looks like code that was rejected
        return loaded;
      } finally {
        signal.removeEventListener("abort", close);
        await process.close();
      }
    });
  } catch (error) {
    throw abortCause(ctx, signal, error);
  }
}
