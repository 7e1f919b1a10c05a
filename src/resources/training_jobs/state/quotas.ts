/** Limits of one workspace: jobs at once, and GPU hours of a month. Jobs that run go on; others wait or are rejected. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { gpuHoursSince } from "../../cost/history.ts";
import { runningOf } from "./queue.ts";

/** The reason why no further job of the workspace starts now. `starting`: its jobs that start but are not in the rows yet. */
export function heldBack(ctx: Ctx, workspaceId: string, starting = 0): string | undefined {
  const { running_jobs: most } = ctx.config.quotas;
  if (most > 0) {
    const running = runningOf(ctx.db, workspaceId) + starting;
    if (running >= most)
      return `waits for earlier jobs of this workspace: ${running} running, ${most} at most (quotas.running_jobs)`;
  }
  const spent = spentHours(ctx, workspaceId);
  return spent === undefined ? undefined : `waits for the next month: ${spent}`;
}

/** 429 if the GPU hours of this month are used up. */
export function mustHaveHours(ctx: Ctx, workspaceId: string) {
  const spent = spentHours(ctx, workspaceId);
  if (spent !== undefined)
    throw new AppError("monthly_quota_exceeded", `No job can be created until the next month: ${spent}`, {
      retryAfterSeconds: (startOfMonth(ctx.clock.now(), 1) - ctx.clock.now()) / 1000,
    });
}

function spentHours(ctx: Ctx, workspaceId: string): string | undefined {
  const { gpu_hours: most } = ctx.config.quotas;
  if (most === 0) return undefined;
  const hours = gpuHoursSince(ctx, workspaceId, startOfMonth(ctx.clock.now()));
  return hours < most
    ? undefined
    : `this workspace has used ${hours.toFixed(1)} GPU hours since the first of the month (UTC), ${most} at most (quotas.gpu_hours)`;
}

function startOfMonth(nowMs: number, monthsLater = 0): number {
  const now = new Date(nowMs);
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + monthsLater, 1);
}
