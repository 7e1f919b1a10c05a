/** Records what a run reports. Each message is one commit, and a message that comes twice changes nothing. */
import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { afterCommit, type Tx, write } from "../../../platform/db/db.ts";
import type { FromTrainer } from "../../../workers/protocol_trainer.ts";
import { lacksRoom } from "../../storage_usage/service.ts";
import { type JobRow, trainingJobs, trainingMetrics, trainingSamples } from "../table.ts";
import { activeNow } from "./account.ts";
import { addCheckpoint, prune, removeFiles } from "./checkpoint_files.ts";
import { pauseForStorage } from "./moves.ts";
import { note } from "./notes.ts";
import { checkpointPath } from "./paths.ts";
import { currentJob, isFinished } from "./rows.ts";

type StepReport = Extract<FromTrainer, { type: "step" }>;
type CheckpointReport = Extract<FromTrainer, { type: "checkpoint" }>;

/** A finished job stays as it is, whatever its worker still reports. */
const unfinished = (tx: Tx, id: string): JobRow | undefined => {
  const job = currentJob(tx, id);
  return job && !isFinished(job) ? job : undefined;
};

export function recordStep(ctx: Ctx, id: string, report: StepReport) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    const job = unfinished(tx, id);
    if (!job) return;
    const point = { epoch: report.epoch, time: now, values: report.values };
    tx.insert(trainingMetrics)
      .values({ jobId: id, step: report.step, ...point })
      .onConflictDoUpdate({ target: [trainingMetrics.jobId, trainingMetrics.step], set: point })
      .run();
    replaceSamples(tx, id, report);
    const etaMs = report.eta_ms === null ? null : Math.round(report.eta_ms);
    tx.update(trainingJobs)
      .set({ step: report.step, latestMetrics: report.values, etaMs, updatedAt: now, ...activeNow(ctx, job) })
      .where(eq(trainingJobs.id, id))
      .run();
    for (const { type, message } of report.alarms)
      note(tx, job, now, { level: "warn", type, message, data: { step: report.step } });
    afterCommit(tx, () => ctx.state.trainingJobs.changes.notify(id));
  });
}

function replaceSamples(tx: Tx, jobId: string, { step, samples }: StepReport) {
  tx.delete(trainingSamples)
    .where(and(eq(trainingSamples.jobId, jobId), eq(trainingSamples.step, step)))
    .run();
  for (const [number, { sub_rewards: subRewards, ...sample }] of samples.entries())
    tx.insert(trainingSamples)
      .values({ jobId, step, number, ...sample, prompt: sample.prompt ?? null, subRewards })
      .run();
}

/** Resolves when the files of pruned checkpoints are removed. */
export async function recordCheckpoint(ctx: Ctx, id: string, report: CheckpointReport): Promise<void> {
  const now = ctx.clock.now();
  const name = report.path.split("/").at(-1) ?? "";
  const pruned = write(ctx.db, (tx) => {
    const job = unfinished(tx, id);
    if (!job) return [];
    const { step, size_bytes: sizeBytes, metrics } = report;
    const added = addCheckpoint(tx, job, { step, path: checkpointPath(id, name), sizeBytes, metrics }, now);
    if (!added) return [];
    const data = { checkpoint_id: added.id, step, size_bytes: sizeBytes };
    note(tx, job, now, { level: "info", type: "checkpoint", message: `Checkpoint after step ${step}`, data });
    const superfluous = prune(ctx, tx, job);
    const full = lacksRoom(ctx, { workspaceId: job.workspaceId, kind: "checkpoints" }, 0);
    if (full !== undefined && step < job.totalSteps) pauseForStorage(ctx, id, full);
    return superfluous;
  });
  for (const { path } of pruned) await removeFiles(ctx, path);
}
