/** The time and the cost of runs. A run is charged once, in the commit that ends it in the row. */
import type { Tx } from "../../../platform/db/db.ts";
import * as billing from "../../billing/service.ts";
import * as energy from "../../energy/service.ts";
import type { JobRow, trainingJobs } from "../table.ts";

export type Patch = Partial<typeof trainingJobs.$inferInsert>;

/** What the end of a run leaves: for the row, and for the ledger. */
export type Settled = { patch: Patch; bill: billing.Bill | null };

/** Pure. Nothing where no run goes on. */
export function settle(job: JobRow, until: number): Settled {
  if (job.runSince === null) return { patch: {}, bill: null };
  const to = Math.max(job.runSince, until);
  const ms = to - job.runSince;
  const bill = billing.billFor({
    workspaceId: job.workspaceId,
    keyId: job.apiKeyId,
    until: to,
    kind: "job",
    id: job.id,
    label: `Training job ${job.id}`,
    usedMs: job.runMs,
    ms,
    ratePerHourMicros: job.rateMicros,
    count: 1,
    remainder: job.costRemainder,
  });
  const used = { runMs: job.runMs + ms, costMicros: job.costMicros + bill.micros, ...energy.atEnd(job, to) };
  return { patch: { ...used, costRemainder: bill.remainder, runSince: null, runUntil: null, etaMs: null }, bill };
}

/** After the row has taken the patch, in the same commit. */
export function charge(tx: Tx, { bill }: Settled, now: number) {
  if (bill) billing.charge(tx, bill, now);
}

/**
 * The last moment at which a run that nobody saw end is known to have been at work. By the clock that it began by: where
 * that lost its time while the machine was off, it is in the future.
 */
export const lastSeen = ({ updatedAt, runUntil }: Pick<JobRow, "updatedAt" | "runUntil">): number =>
  Math.max(updatedAt, runUntil ?? 0);
