import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { SECOND_MS } from "../../../lib/units.ts";
import { planFor } from "../accounts.ts";
import { allowanceOf } from "../policy.ts";

const FORGET_ABOVE = 10_000;

/** Limits the requests of a workspace, over all of its keys, to what its plan allows in any second. */
export function spendRate(ctx: Ctx, workspaceId: string) {
  const { plan } = planFor(ctx, workspaceId);
  const most = allowanceOf(ctx.config.detect, plan).perSecond;
  if (most === 0) return;
  const all = ctx.state.detection.times;
  const times = all.get(workspaceId) ?? [];
  const now = ctx.clock.now();
  const refused = enter(times, now, { most, lengthMs: SECOND_MS });
  if (refused)
    throw new AppError(
      "rate_limited",
      `The plan ${plan} allows ${most} requests a second. Wait for the time in Retry-After`,
      {
        retryAfterSeconds: Math.max(1, refused.waitMs / 1000),
      },
    );
  all.set(workspaceId, times);
  if (all.size > FORGET_ABOVE) for (const [id, each] of all) if ((each.at(-1) ?? 0) < now - SECOND_MS) all.delete(id);
}

/**
 * So many in any second, exactly: the times of those that were let in, oldest first. A request fits when fewer than
 * `most` of them lie within the window that ends with it.
 */
export type Window = { most: number; lengthMs: number };

/** Adds this one to `times`; or says how long to wait, and adds nothing. */
export function enter(times: number[], nowMs: number, { most, lengthMs }: Window): { waitMs: number } | undefined {
  const from = times.findIndex((at) => at > nowMs - lengthMs && at <= nowMs); // later than now: the clock was set back
  times.splice(0, from < 0 ? times.length : from);
  const last = times.findIndex((at) => at > nowMs);
  if (last >= 0) times.length = last;
  const oldest = times[times.length - most];
  if (oldest !== undefined) return { waitMs: oldest + lengthMs - nowMs };
  times.push(nowMs);
  return undefined;
}
