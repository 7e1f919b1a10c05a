/**
 * What a workspace may still do: its plan, its month, its credit. What is under way counts as used, so that however
 * many come at once, none is let in that could not be paid: items of batches by their rows, single requests in memory.
 */
import { eq, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { monthOf } from "../../lib/months.ts";
import { oncePer } from "../../lib/once_per.ts";
import { type Db, prepared, type Tx } from "../../platform/db/db.ts";
import { preparedRow } from "../../platform/db/row.ts";
import * as webhooks from "../webhooks/service.ts";
import { workspaces } from "../workspaces/table.ts";
import { alertsOf, allowanceOf, type Plan, planOf, untilNextMonth } from "./policy.ts";
import { type AccountRow, detectionAccounts } from "./table.ts";

const byId = preparedRow(detectionAccounts, eq(detectionAccounts.workspaceId, sql.placeholder("id")));
const workspaceById = preparedRow(workspaces, eq(workspaces.id, sql.placeholder("id")));
/** Prepared: a statement that the builder writes anew was a tenth of the server's work for a detection. */
const spend = prepared((db) =>
  db.$client.prepare<unknown, [string, number, number, number, string]>(
    `UPDATE detection_accounts SET month = ?, month_requests = ?, credits_spent = ?, updated_at = ?
     WHERE workspace_id = ?`,
  ),
);

/** As it is before anything is set or used. */
export const accountOf = (ctx: Pick<Ctx, "db" | "clock">, workspaceId: string): AccountRow =>
  byId(ctx.db, { id: workspaceId }) ?? {
    workspaceId,
    defaultModels: ["detector_v0"],
    defaultThreshold: 0.5,
    cacheEnabled: true,
    creditsSpent: 0,
    month: monthOf(ctx.clock.now()),
    monthRequests: 0,
    createdAt: ctx.clock.now(),
    updatedAt: ctx.clock.now(),
  };

type Changes = Partial<Omit<AccountRow, "workspaceId" | "createdAt" | "updatedAt">>;

export function change(ctx: Ctx, tx: Tx, workspaceId: string, changes: Changes) {
  const updatedAt = ctx.clock.now();
  tx.insert(detectionAccounts)
    .values({ ...accountOf(ctx, workspaceId), ...changes, updatedAt })
    .onConflictDoUpdate({ target: detectionAccounts.workspaceId, set: { ...changes, updatedAt } })
    .run();
}

export function planFor(ctx: Pick<Ctx, "config" | "db">, workspaceId: string): { plan: Plan; customerId: string } {
  const row = workspaceById(ctx.db, { id: workspaceId });
  const plan = planOf(ctx.config.detect, { id: workspaceId, name: row?.name ?? "" });
  return { plan, customerId: row?.paymentCustomerId ?? "" };
}

export const creditsOf = (ctx: Pick<Ctx, "config">, { creditsSpent }: Pick<AccountRow, "creditsSpent">): number =>
  Math.max(0, ctx.config.detect.initial_credits - creditsSpent);

export type Need = { requests: number; credits: number };

const heldOf = oncePer((_db: Db) => new Map<string, Need>());
const dueItems = prepared((db) =>
  db.$client.prepare<{ due: number }, [string]>(
    `SELECT coalesce(sum(total - success_count - failure_count), 0) AS due FROM detection_batches
     WHERE workspace_id = ? AND finished_at IS NULL`,
  ),
);

/** 429 or 402 where it is more than is left. */
export function requireRoom(ctx: Ctx, workspaceId: string, need: Need) {
  const account = accountOf(ctx, workspaceId);
  const { perMonth } = allowanceOf(ctx.config.detect, planFor(ctx, workspaceId).plan);
  const held = heldOf(ctx.db).get(workspaceId) ?? { requests: 0, credits: 0 };
  const due = dueItems(ctx.db).get(workspaceId)?.due ?? 0;
  const now = ctx.clock.now();
  const used = (account.month === monthOf(now) ? account.monthRequests : 0) + held.requests + due;
  if (perMonth > 0 && used + need.requests > perMonth)
    throw new AppError(
      "monthly_quota_exceeded",
      `This account may have ${perMonth} detections a month: ${Math.max(0, perMonth - used)} are left, and this takes ${need.requests}`,
      { retryAfterSeconds: untilNextMonth(now) },
    );
  const left = creditsOf(ctx, account) - held.credits - due;
  if (need.credits > left)
    throw new AppError(
      "insufficient_credits",
      `This takes ${need.credits} credits and ${Math.max(0, left)} are left: have detect.initial_credits raised`,
    );
}

/** Sets aside what one request needs, until it is charged or has failed. */
export function hold(ctx: Ctx, workspaceId: string, need: Need): () => void {
  requireRoom(ctx, workspaceId, need);
  const all = heldOf(ctx.db);
  const add = (sign: number) => {
    const { requests, credits } = all.get(workspaceId) ?? { requests: 0, credits: 0 };
    const next = { requests: requests + sign * need.requests, credits: credits + sign * need.credits };
    if (next.requests === 0 && next.credits === 0) all.delete(workspaceId);
    else all.set(workspaceId, next);
  };
  add(1);
  return () => add(-1);
}

/** In one commit with what it is for. */
export function charge(ctx: Ctx, tx: Tx, workspaceId: string, used: Need) {
  const before = accountOf(ctx, workspaceId);
  const month = monthOf(ctx.clock.now());
  const monthRequests = (before.month === month ? before.monthRequests : 0) + used.requests;
  const after = { month, monthRequests, creditsSpent: before.creditsSpent + used.credits };
  const { changes } = spend(tx).run(month, monthRequests, after.creditsSpent, ctx.clock.now(), workspaceId);
  if (changes === 0) change(ctx, tx, workspaceId, after);
  const total = ctx.config.detect.initial_credits;
  const credits = creditsOf(ctx, after);
  for (const { event, threshold } of alertsOf(total, creditsOf(ctx, before), credits)) {
    const data = { ...planFor(ctx, workspaceId), credits, total, threshold };
    webhooks.tellService(ctx, tx, workspaceId, { event, data });
  }
}
