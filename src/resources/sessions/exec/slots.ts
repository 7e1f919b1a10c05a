/** Commands at the same time, in all sessions: in fair turns, and one place is kept for whoever runs none. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { oncePer } from "../../../lib/once_per.ts";
import { createPlaces, takeWithin } from "../../../platform/semaphore.ts";

const MOST_WAIT_MS = 30_000;
const MOST_WAITING = 1_000;

const slotsOf = oncePer(({ sessions }: Ctx["config"]) =>
  createPlaces({ total: sessions.execs, maxWaiting: MOST_WAITING, keepsOne: true }),
);

/** Gives the way to free it. Throws `no_capacity` when it takes too long, and when nobody waits any more. */
export async function takeSlot(
  ctx: Pick<Ctx, "config" | "clock">,
  workspaceId: string,
  signal: AbortSignal,
): Promise<() => void> {
  const patience = { clock: ctx.clock, ms: MOST_WAIT_MS };
  const free = await takeWithin(patience, slotsOf(ctx.config), { workspaceId, signal }, 1).catch(() => undefined);
  if (free) return free;
  throw new AppError(
    "no_capacity",
    `${ctx.config.sessions.execs} commands run in the sessions of this server: try again later`,
    { retryAfterSeconds: 10 },
  );
}
