/** Takes a job from the queue to a run: model, memory, newest checkpoint, process. */
import type { Ctx } from "../../../../context.ts";
import { MIB } from "../../../../lib/units.ts";
import { write } from "../../../../platform/db/db.ts";
import { lacksSpace } from "../../../../platform/machine/disk.ts";
import { hasResolved } from "../../../data/datasets/stream/resolved.ts";
import { lacksRoom } from "../../../data/storage_usage/service.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import { startCustom } from "../custom/run.ts";
import { openLog } from "../logs/file.ts";
import { UNREPORTED_END } from "../policy.ts";
import { addRun } from "../remote_runs.ts";
import { alignCheckpoints } from "../state/checkpoint_files.ts";
import { baseModelOf, startFault } from "../state/inputs.ts";
import * as moves from "../state/moves.ts";
import { LOCAL } from "../state/queue.ts";
import { currentJob } from "../state/rows.ts";
import type { CheckpointRow, JobRow } from "../table.ts";
import { finishOrRetry } from "./door.ts";
import { type Files, taskOf } from "./plan.ts";
import { start } from "./run.ts";

/** Resolves when the job runs, or cannot run now. */
export async function launch(ctx: Ctx, job: JobRow): Promise<void> {
  const live = ctx.state.trainingJobs;
  if (live.isActive(job.id) || job.reading) return;
  if (job.resolver && !hasResolved(ctx, job.id)) return; // reconcileReadings makes the rows again
  const full = lacksRoom(ctx, { workspaceId: job.workspaceId, kind: "checkpoints" }, 1);
  if (full !== undefined) return void moves.pauseForStorage(ctx, job.id, full);
  const lacking = lacksSpace(ctx);
  if (lacking !== undefined) return moves.setQueueReason(ctx, job, `waits for disk space: ${lacking}`);
  await live.launching(job.id, async () => {
    try {
      const base = job.method === "custom" ? undefined : baseModelOf(ctx, job);
      if (base && "waits" in base) return moves.setQueueReason(ctx, job, base.waits);
      const files = base && { ...base, model: base.ready };
      const checkpoint = files && (await alignCheckpoints(ctx, job));
      if (checkpoint && checkpoint.step >= job.totalSteps) return await finishNow(ctx, job, checkpoint);
      if (job.region !== LOCAL) provisionRemote(ctx, job, checkpoint);
      else await lease(ctx, job, { files, checkpoint });
    } catch (error) {
      releaseMemory(ctx, job.id);
      const fault = startFault(error);
      if (!fault) throw error;
      moves.fail(ctx, job.id, fault);
    }
  });
}

/** The commit that provisions the job has its run too. The loop `training_jobs.remote` sends it. */
function provisionRemote(ctx: Ctx, job: JobRow, checkpoint: CheckpointRow | undefined) {
  if (ctx.closing.aborted) return;
  const log = openLog(ctx, job.id);
  const logBytes = log.bytes();
  log.close();
  write(ctx.db, (tx) => {
    const { id: jobId, region } = job;
    if (moves.provision(ctx, job, checkpoint)) addRun(tx, { jobId, region, logBytes, now: ctx.clock.now() });
  });
  ctx.wake("training_jobs.remote");
}

/** All steps are done: the server ended between the last checkpoint and the end of the job. No trainer is needed. */
async function finishNow(ctx: Ctx, job: JobRow, checkpoint: CheckpointRow) {
  if (!moves.provision(ctx, job, checkpoint)) return;
  moves.markRunning(ctx, job.id, { device: "this machine (all steps are done)", memoryBytes: 0 });
  await finishOrRetry(ctx, job.id, { ...UNREPORTED_END, kind: "done", trained: true });
}

type Inputs = { files: Files | undefined; checkpoint: CheckpointRow | undefined };

async function lease(ctx: Ctx, job: JobRow, { files, checkpoint }: Inputs) {
  const live = ctx.state.trainingJobs;
  const grant = await gpu.acquire(ctx, {
    holder: job.id,
    kind: "training_job",
    workspaceId: job.workspaceId,
    bytes: job.memoryBytes,
    mainBytes: job.resources && job.gpuType !== "cpu" ? job.resources.memory_mib * MIB : 0,
    gpuType: job.gpuType,
    gpuCount: job.gpuCount,
    priority: job.priority,
    pinned: true,
    mayEvict: true,
  });
  if (grant.status === "never") {
    const message = `No capacity: ${grant.reason}`;
    return void moves.fail(ctx, job.id, { code: "provisioning_failed", message, param: "/gpu" });
  }
  const fresh = currentJob(ctx.db, job.id);
  if (fresh?.status !== "queued" || ctx.closing.aborted) return releaseMemory(ctx, job.id);
  live.setAwaitingMemory(job.id, grant.status === "waiting");
  if (grant.status === "waiting") return moves.setQueueReason(ctx, fresh, grant.reason);
  // Build the trainer's task before the row moves to `provisioning`. If it cannot be built, the job fails while still queued.
  const task = files && taskOf(ctx, fresh, { ...files, devices: grant.devices, checkpoint });
  const provisioned = moves.provision(ctx, fresh, checkpoint);
  if (!provisioned) return releaseMemory(ctx, job.id);
  const cards = grant.devices.length > 0 ? grant.deviceIds : [];
  if (task) start(ctx, { job: provisioned, task, cards });
  else startCustom(ctx, provisioned, cards);
}

/** Releases the job's memory, or takes the job out of the ledger's queue. */
export function releaseMemory(ctx: Ctx, id: string) {
  ctx.state.trainingJobs.setAwaitingMemory(id, false);
  gpu.release(ctx, id);
}
