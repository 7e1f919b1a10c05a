/** The time and the cost of runs. A run is charged once, in the commit that ends it in the row. */
import type { Tx } from "../../../platform/db/db.ts";
import * as billing from "../../billing/service.ts";
import * as energy from "../../energy/service.ts";
import type { JobRow, trainingJobs } from "../table.ts";

export type Patch = Partial<typeof trainingJobs.$inferInsert>;

/** The end of a run: the patch for the job's row and the bill for the ledger. */
export type Settlement = { patch: Patch; bill: billing.Bill | null };

/** Pure. Empty if the job has no open run. */
export function settle(job: JobRow, until: number): Settlement {
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

/** Call it after the row has taken the patch, in the same commit. */
export function charge(tx: Tx, { bill }: Settlement, now: number) {
  if (bill) billing.charge(tx, bill, now);
}

/**
 * The last moment at which a lost run is known to have worked. It is read from the clock that the run began with. If
 * that clock was set back while the machine was off, the moment lies in the future.
 */
export const lastActive = ({ updatedAt, runUntil }: Pick<JobRow, "updatedAt" | "runUntil">): number =>
  Math.max(updatedAt, runUntil ?? 0);
