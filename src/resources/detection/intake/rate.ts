import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { oncePer } from "../../../lib/once_per.ts";
import type { Db } from "../../../platform/db/db.ts";
import { planFor } from "../accounts.ts";
import { allowanceOf } from "../policy.ts";
import { enter } from "./rate_window.ts";

const FORGET_ABOVE = 10_000;
const SECOND_MS = 1_000;

/** In memory: a restart forgives at most one second's worth. */
const timesOf = oncePer((_db: Db) => new Map<string, number[]>());

/** A workspace's requests, whatever key they come with: never more in any second than its plan says. */
export function spendRate(ctx: Ctx, workspaceId: string) {
  const { plan } = planFor(ctx, workspaceId);
  const most = allowanceOf(ctx.config.detect, plan).perSecond;
  if (most === 0) return;
  const all = timesOf(ctx.db);
  const times = all.get(workspaceId) ?? [];
  const now = ctx.clock.now();
  const refused = enter(times, now, { most, lengthMs: SECOND_MS });
  if (refused)
    throw new AppError("rate_limited", `More than ${most} requests a second, which is what the plan ${plan} allows`, {
      retryAfterSeconds: Math.max(1, refused.waitMs / 1000),
    });
  all.set(workspaceId, times);
  if (all.size > FORGET_ABOVE) for (const [id, each] of all) if ((each.at(-1) ?? 0) < now - SECOND_MS) all.delete(id);
}
