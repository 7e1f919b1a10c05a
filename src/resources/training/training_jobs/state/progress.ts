/**
 * Records what a run reports. Each message is one commit, and a message that comes twice changes nothing. A finished
 * job stays as it is, whatever its worker still reports.
 */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { afterCommit, write } from "../../../../platform/db/db.ts";
import { lacksSpace } from "../../../../platform/machine/disk.ts";
import type { FromTrainer } from "../../../../workers/protocol_trainer.ts";
import { lacksRoom } from "../../../data/storage_usage/service.ts";
import * as energy from "../../../money/energy/service.ts";
import { storeRollouts } from "../../../watching/traces/rollouts.ts";
import { trainingJobs } from "../table.ts";
import { activeNow } from "./account.ts";
import { addCheckpoint, prune, removeFiles } from "./checkpoint_files.ts";
import { pauseForStorage } from "./moves.ts";
import { checkpointPath } from "./paths.ts";
import { unfinishedJob } from "./rows.ts";
import { writeStep } from "./steps.ts";

type StepReport = Extract<FromTrainer, { type: "step" }>;
type CheckpointReport = Extract<FromTrainer, { type: "checkpoint" }>;

export function recordStep(ctx: Ctx, id: string, report: StepReport) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    const job = unfinishedJob(tx, id);
    if (!job) return;
    // The metrics of a custom job are its own: their units are not known.
    const used = job.method === "custom" ? {} : energy.metricsOfStep(ctx, id, report.values["step_time"]);
    const values = { ...report.values, ...used };
    const isFull = lacksSpace(ctx, JSON.stringify(report.samples).length) !== undefined;
    const samples = isFull ? [] : report.samples; // the job is paused at its next checkpoint
    const { step } = report;
    writeStep(tx, job, { ...report, values, samples, time: now });
    storeRollouts(ctx, tx, { workspaceId: job.workspaceId, jobId: id, step, model: job.baseModel, samples });
    const etaMs = report.eta_ms === null ? null : Math.round(report.eta_ms);
    tx.update(trainingJobs)
      .set({ step: report.step, latestMetrics: values, etaMs, updatedAt: now, ...activeNow(ctx, job) })
      .where(eq(trainingJobs.id, id))
      .run();
    afterCommit(tx, () => ctx.state.trainingJobs.changes.notify(id));
  });
}

/** Resolves when the files of pruned checkpoints are removed. */
export async function recordCheckpoint(ctx: Ctx, id: string, report: CheckpointReport): Promise<void> {
  const now = ctx.clock.now();
  const name = report.path.split("/").at(-1) ?? "";
  const pruned = write(ctx.db, (tx) => {
    const job = unfinishedJob(tx, id);
    if (!job) return [];
    const { step, size_bytes: sizeBytes, metrics } = report;
    const added = addCheckpoint(tx, job, { step, path: checkpointPath(id, name), sizeBytes, metrics }, now);
    if (!added) return [];
    const superfluous = prune(ctx, tx, job);
    const lacking = lacksRoom(ctx, { workspaceId: job.workspaceId, kind: "checkpoints" }, 0);
    const full = lacking ?? lacksSpace(ctx, sizeBytes); // for the next checkpoint
    if (full !== undefined && step < job.totalSteps) pauseForStorage(ctx, id, full);
    return superfluous;
  });
  for (const { path } of pruned) await removeFiles(ctx, path);
}
