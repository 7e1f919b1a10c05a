/** The time and the cost of runs. A run is charged once, in the commit that ends it in the row. */
import type { Ctx } from "../../../context.ts";
import type { Tx } from "../../../platform/db/db.ts";
import { endRun, runTime, type Timed } from "../../billing/run_time.ts";
import * as billing from "../../billing/service.ts";
import * as energy from "../../energy/service.ts";
import type { JobRow, trainingJobs } from "../table.ts";

export type Patch = Partial<typeof trainingJobs.$inferInsert>;

/** What the end of a run leaves: for the row, and for the ledger. */
export type Settled = { patch: Patch; bill: billing.Bill | null };

/** The run of `job`, if it has one, ends now. */
export const settle = (ctx: Timed, job: JobRow): Settled => settleAt(job, runTime(ctx, job.id), ctx.clock.now());

/** The server died under the run of `job`: it is charged up to the last time that it was seen at work. */
export const settleUnseen = (job: JobRow): Settled => settleAt(job, lastSeen(job), lastSeen(job));

/** Pure. `end`: in the time of the run. `until`: the same moment by the time of day, which says which month pays. */
function settleAt(job: JobRow, end: number, until: number): Settled {
  if (job.runSince === null) return { patch: {}, bill: null };
  const to = Math.max(job.runSince, end);
  const ms = to - job.runSince;
  const bill = billing.billFor({
    workspaceId: job.workspaceId,
    keyId: job.apiKeyId,
    until,
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
export function charge(ctx: Pick<Ctx, "state">, tx: Tx, { bill }: Settled, now: number) {
  if (!bill) return;
  billing.charge(tx, bill, now);
  endRun(ctx, tx, bill.id);
}

/** In the time of the run. A run that was never seen counts from its beginning, so as nothing. */
export const lastSeen = ({ runSince, runUntil }: Pick<JobRow, "runSince" | "runUntil">): number =>
  Math.max(runSince ?? 0, runUntil ?? 0);

/** For the row: should the server be killed, the run is charged up to here. */
export const seenNow = (ctx: Timed, { id, runSince }: JobRow): Patch =>
  runSince === null ? {} : { runUntil: runTime(ctx, id) };
