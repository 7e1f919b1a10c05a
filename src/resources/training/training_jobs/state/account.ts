/** The time and the cost of runs. A run is charged once, in the commit that ends it in the row. */
import type { Ctx } from "../../../../context.ts";
import type { Tx } from "../../../../platform/db/db.ts";
import { isCloud } from "../../../machines/regions/table.ts";
import { endRun, runTime, type Timed } from "../../../money/billing/run_time.ts";
import * as billing from "../../../money/billing/service.ts";
import * as energy from "../../../money/energy/service.ts";
import type { JobRow, trainingJobs } from "../table.ts";

export type Patch = Partial<typeof trainingJobs.$inferInsert>;

/** The end of a run: the patch for the job's row and the bill for the ledger. */
export type Settlement = { patch: Patch; bill: billing.Bill | null };

/** Settles the open run of `job`, which ends now. Empty if there is none. */
export const settle = (ctx: Timed, job: JobRow): Settlement => settleAt(job, runTime(ctx, job.id), ctx.clock.now());

/** Settles a run that the previous server lost, up to its last known activity. */
export const settleLost = (job: JobRow): Settlement => settleAt(job, lastActive(job), lastActive(job));

/** Pure. `end`: in the time of the run. `until`: the same moment by the time of day, which decides the month of the bill. */
function settleAt(job: JobRow, end: number, until: number): Settlement {
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
    isPaidByMachine: isCloud(job.provider),
  });
  const used = { runMs: job.runMs + ms, costMicros: job.costMicros + bill.micros, ...energy.atEnd(job, to) };
  return { patch: { ...used, costRemainder: bill.remainder, runSince: null, runUntil: null, etaMs: null }, bill };
}

/** Call it after the row has taken the patch, in the same commit. */
export function charge(ctx: Pick<Ctx, "state">, tx: Tx, { bill }: Settlement, now: number) {
  if (!bill) return;
  billing.charge(tx, bill, now);
  endRun(ctx, tx, bill.id);
}

/** In the time of the run. Without any recorded activity a run counts as nothing. */
export const lastActive = ({ runSince, runUntil }: Pick<JobRow, "runSince" | "runUntil">): number =>
  Math.max(runSince ?? 0, runUntil ?? 0);

/** A patch for the row: if the server is killed, the run is charged up to here. */
export const activeNow = (ctx: Timed, { id, runSince }: JobRow): Patch =>
  runSince === null ? {} : { runUntil: runTime(ctx, id) };
