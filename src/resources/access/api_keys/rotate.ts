/** Replaces a key by a new one with the same rights. The old one works for a while, so that programs can change over. */
import { eq } from "drizzle-orm";
import type { Ctx, Principal } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { usdOf } from "../../../lib/money.ts";
import { isoOrNull } from "../../../lib/schema.ts";
import { write } from "../../../platform/db/db.ts";
import * as keys from "./service.ts";
import { type ApiKeyRow, apiKeys } from "./table.ts";

/** `by`: undefined for the command line. `graceMs`: 0 revokes the old key at once. */
type Rotation = { workspaceId: string; id: string; graceMs: number; by?: Principal };

export function rotate(ctx: Ctx, { workspaceId, id, graceMs, by }: Rotation): { row: ApiKeyRow; key: string } {
  return write(ctx.db, (tx) => {
    const now = ctx.clock.now();
    const old = keys.mustGetKey(ctx, workspaceId, id);
    if (old.status !== "active" || (old.expiresAt !== null && old.expiresAt <= now))
      throw new AppError("unsupported_state", "This key is revoked or has expired: create a new one");
    const { monthlyBudgetMicros } = old;
    const input = {
      name: old.name,
      scopes: old.scopes,
      metadata: old.metadata,
      expires_at: isoOrNull(old.expiresAt === null ? null : now + old.expiresAt - old.createdAt),
      monthly_budget_usd: monthlyBudgetMicros === null ? null : usdOf(monthlyBudgetMicros),
      priority: old.priority,
    };
    if (by) requireOwnOrService(by, old);
    const allowed = by ? keys.boundedBy(ctx, by, { ...input, expires_at: earlier(ctx, by, input.expires_at) }) : input;
    // The new key shares the budget of the old one: a rotation does not reset what was spent.
    const successor = keys.create(ctx, workspaceId, allowed, {
      budgetKeyId: keys.sharedBudget(ctx, old),
      userId: old.userId,
    });
    if (graceMs === 0) keys.revoke(ctx, workspaceId, id);
    else {
      const expiresAt = Math.min(old.expiresAt ?? Number.POSITIVE_INFINITY, now + graceMs);
      tx.update(apiKeys).set({ expiresAt, updatedAt: now }).where(eq(apiKeys.id, id)).run();
    }
    return successor;
  });
}

/** A new key is shown to the caller, who could act in the name of its owner. */
function requireOwnOrService({ userId }: Principal, { userId: owner }: ApiKeyRow) {
  if (owner === null || owner === userId) return;
  throw new AppError("missing_scope", "This key belongs to another user: only that user rotates it; you may revoke it");
}

/** A caller with an expiring key makes no key that lives longer. */
function earlier(ctx: Ctx, { workspaceId, keyId }: Principal, wanted: string | null): string | null {
  const { expiresAt } = keys.mustGet(ctx, workspaceId, keyId);
  if (expiresAt === null) return wanted;
  return wanted === null || Date.parse(wanted) > expiresAt ? isoOrNull(expiresAt) : wanted;
}
