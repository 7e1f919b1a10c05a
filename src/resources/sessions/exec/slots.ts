import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";

const MOST_WAIT_MS = 30_000;

/** Waits for a permit to run a command. Throws `no_capacity` after `MOST_WAIT_MS`, and if `signal` aborts. */
export async function takeSlot(ctx: Ctx, workspaceId: string, signal: AbortSignal): Promise<() => void> {
  const timeout = { clock: ctx.clock, ms: MOST_WAIT_MS };
  const release = await ctx.state.sessions.execs.acquire({ workspaceId, signal }, { timeout }).catch(() => undefined);
  if (release) return release;
  throw new AppError(
    "no_capacity",
    `This server runs ${ctx.config.sessions.execs} commands at a time (sessions.execs): try again later`,
    { retryAfterSeconds: 10 },
  );
}
