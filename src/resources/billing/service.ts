/** What things cost and what a workspace has left: the credit it began with, less what it has spent. */
import { eq, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { microsOf, usdOf } from "../../lib/money.ts";
import type { Tx } from "../../platform/db.ts";
import * as cost from "../cost/service.ts";
import { billingAccounts } from "./table.ts";

/** A stretch of time in which a deployment held its hardware. Stretches of one deployment never overlap. */
export type DeploymentUsage = {
  workspaceId: string;
  deploymentId: string;
  from: number;
  to: number;
  ratePerHourMicros: number | null;
  replicas: number;
  /** The last stretch of this run. */
  final: boolean;
};

/** One run of a job, from its start to its end, however it ended. */
export type JobUsage = {
  workspaceId: string;
  jobId: string;
  from: number;
  to: number;
  /** Of all its devices together. */
  ratePerHourMicros: number | null;
};

const HOUR_MS = 3_600_000;

/** In micro-dollars. No rate: free. */
export const costOf = (ratePerHourMicros: number | null, ms: number): number =>
  Math.round(((ratePerHourMicros ?? 0) * Math.max(0, ms)) / HOUR_MS);

/** What the stretch cost, in micro-dollars, to be added to the deployment in the same commit. */
export function chargeDeployment(tx: Tx, usage: DeploymentUsage): number {
  const micros = costOf(usage.ratePerHourMicros, (usage.to - usage.from) * usage.replicas);
  return spend(tx, usage.workspaceId, micros, usage.to);
}

/** What the run cost, in micro-dollars, to be added to the job in the same commit. */
export function chargeJob(tx: Tx, usage: JobUsage): number {
  return spend(tx, usage.workspaceId, costOf(usage.ratePerHourMicros, usage.to - usage.from), usage.to);
}

function spend(tx: Tx, workspaceId: string, micros: number, now: number): number {
  if (micros > 0)
    tx.insert(billingAccounts)
      .values({ workspaceId, spentMicros: micros, updatedAt: now })
      .onConflictDoUpdate({
        target: billingAccounts.workspaceId,
        set: { spentMicros: sql`${billingAccounts.spentMicros} + ${micros}`, updatedAt: now },
      })
      .run();
  return micros;
}

export function balanceMicros(ctx: Pick<Ctx, "config" | "db">, workspaceId: string): number {
  const account = ctx.db.select().from(billingAccounts).where(eq(billingAccounts.workspaceId, workspaceId)).get();
  return microsOf(ctx.config.billing.initial_credit_usd) - (account?.spentMicros ?? 0);
}

/** 402 where nothing is left, or less than `micros`. */
export function mustAfford(ctx: Pick<Ctx, "config" | "db">, workspaceId: string, micros: number) {
  const balance = balanceMicros(ctx, workspaceId);
  if (balance > 0 && balance >= micros) return;
  const has = `This workspace has ${dollars(balance)} of credit`;
  const fix = "have credit granted, or billing.initial_credit_usd raised";
  throw new AppError(
    "insufficient_credits",
    balance > 0 ? `${has}, and this takes about ${dollars(micros)}: ${fix}` : `${has} left: ${fix}`,
  );
}

const dollars = (micros: number) => `$${usdOf(micros).toFixed(2)}`;

/** Micro-dollars for an hour of one device; null: free. */
export const rateFor = (ctx: Pick<Ctx, "config" | "pricing" | "db">, provider: string, gpuType: string) =>
  cost.rateFor(ctx, provider, gpuType);
