/** What a run tells of its progress, written down: each message is one commit, and coming twice changes nothing. */
import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { afterCommit, type Tx, write } from "../../../platform/db/db.ts";
import type { FromTrainer } from "../../../workers/protocol_trainer.ts";
import { lacksRoom } from "../../storage_usage/service.ts";
import { type JobRow, trainingJobs, trainingMetrics, trainingSamples } from "../table.ts";
import { seenNow } from "./account.ts";
import { changed } from "./change_signals.ts";
import { add, prune, removeFiles } from "./checkpoint_files.ts";
import { current, pauseForStorage } from "./moves.ts";
import { note } from "./notes.ts";
import { checkpointPath } from "./paths.ts";

type Step = Extract<FromTrainer, { type: "step" }>;
type Checkpoint = Extract<FromTrainer, { type: "checkpoint" }>;

const LIVE: readonly JobRow["status"][] = ["provisioning", "running", "paused", "cancelling", "queued"];

/** One that has ended stays as it is, whatever its worker still says. */
const living = (tx: Tx, id: string): JobRow | undefined => {
  const job = current(tx, id);
  return job && LIVE.includes(job.status) ? job : undefined;
};

export function step(ctx: Ctx, id: string, told: Step) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    const job = living(tx, id);
    if (!job) return;
    const point = { epoch: told.epoch, time: now, values: told.values };
    tx.insert(trainingMetrics)
      .values({ jobId: id, step: told.step, ...point })
      .onConflictDoUpdate({ target: [trainingMetrics.jobId, trainingMetrics.step], set: point })
      .run();
    keepSamples(tx, id, told);
    const etaMs = told.eta_ms === null ? null : Math.round(told.eta_ms);
    tx.update(trainingJobs)
      .set({ step: told.step, latestMetrics: told.values, etaMs, updatedAt: now, ...seenNow(ctx, job) })
      .where(eq(trainingJobs.id, id))
      .run();
    for (const { type, message } of told.alarms)
      note(tx, job, now, { level: "warn", type, message, data: { step: told.step } });
    afterCommit(tx, () => changed(ctx, id));
  });
}

function keepSamples(tx: Tx, jobId: string, told: Step) {
  tx.delete(trainingSamples)
    .where(and(eq(trainingSamples.jobId, jobId), eq(trainingSamples.step, told.step)))
    .run();
  for (const [number, { sub_rewards: subRewards, ...sample }] of told.samples.entries())
    tx.insert(trainingSamples)
      .values({ jobId, step: told.step, number, ...sample, prompt: sample.prompt ?? null, subRewards })
      .run();
}

/** Returns once files that are superfluous now are gone. */
export async function checkpoint(ctx: Ctx, id: string, told: Checkpoint): Promise<void> {
  const now = ctx.clock.now();
  const name = told.path.split("/").at(-1) ?? "";
  const gone = write(ctx.db, (tx) => {
    const job = living(tx, id);
    if (!job) return [];
    const { step, size_bytes: sizeBytes, metrics } = told;
    const added = add(tx, job, { step, path: checkpointPath(id, name), sizeBytes, metrics }, now);
    if (!added) return [];
    const data = { checkpoint_id: added.id, step, size_bytes: sizeBytes };
    note(tx, job, now, { level: "info", type: "checkpoint", message: `Checkpoint after step ${step}`, data });
    const superfluous = prune(ctx, tx, job);
    const full = lacksRoom(ctx, { workspaceId: job.workspaceId, kind: "checkpoints" }, 0);
    if (full !== undefined && step < job.totalSteps) pauseForStorage(ctx, id, full);
    return superfluous;
  });
  for (const { path } of gone) await removeFiles(ctx, path);
}
