/** From the queue to a run: model, memory, the newest checkpoint, a process. */
import type { Ctx } from "../../../context.ts";
import { lacksSpace } from "../../../platform/machine/disk.ts";
import * as gpu from "../../gpu/service.ts";
import type { ModelRow } from "../../models/table.ts";
import { lacksRoom } from "../../storage_usage/service.ts";
import { startCustom } from "../custom/run.ts";
import { UNTOLD } from "../policy.ts";
import { align } from "../state/checkpoint_files.ts";
import { isAtWork, liveOf } from "../state/live.ts";
import * as moves from "../state/moves.ts";
import type { CheckpointRow, JobRow } from "../table.ts";
import { baseModelOf, startFault, taskOf } from "./plan.ts";
import { finishOr, start } from "./run.ts";

/** Returns when it runs, or cannot be run now. */
export async function launch(ctx: Ctx, job: JobRow): Promise<void> {
  const { launching } = liveOf(ctx.db);
  if (isAtWork(ctx, job.id)) return;
  const full = lacksRoom(ctx, { workspaceId: job.workspaceId, kind: "checkpoints" }, 1);
  if (full !== undefined) return void moves.pauseForStorage(ctx, job.id, full);
  const lacking = lacksSpace(ctx);
  if (lacking !== undefined) return moves.waits(ctx, job, `waits for disk space: ${lacking}`);
  launching.add(job.id);
  try {
    const base = job.method === "custom" ? undefined : baseModelOf(ctx, job);
    if (base && "waits" in base) return moves.waits(ctx, job, base.waits);
    const model = base?.ready;
    const checkpoint = model && (await align(ctx, job));
    if (checkpoint && checkpoint.step >= job.totalSteps) return await finishNow(ctx, job, checkpoint);
    await lease(ctx, job, { model, checkpoint });
  } catch (error) {
    leaveQueue(ctx, job.id);
    const fault = startFault(error);
    if (!fault) throw error;
    moves.fail(ctx, job.id, fault);
  } finally {
    launching.delete(job.id);
  }
}

/** What is left to do needs no trainer: the server ended between the last checkpoint and the job's end. */
async function finishNow(ctx: Ctx, job: JobRow, checkpoint: CheckpointRow) {
  if (!moves.place(ctx, job, checkpoint)) return;
  moves.begin(ctx, job.id, { device: "this machine: all steps are done", memoryBytes: 0 });
  await finishOr(ctx, job.id, { ...UNTOLD, kind: "done", trained: true });
}

type From = { model: ModelRow | undefined; checkpoint: CheckpointRow | undefined };

async function lease(ctx: Ctx, job: JobRow, { model, checkpoint }: From) {
  const grant = await gpu.acquire(ctx, {
    holder: job.id,
    kind: "training_job",
    workspaceId: job.workspaceId,
    bytes: job.memoryBytes,
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
  const { queued } = liveOf(ctx.db);
  const fresh = moves.current(ctx.db, job.id);
  if (fresh?.status !== "queued" || ctx.closing.aborted) return leaveQueue(ctx, job.id);
  if (grant.status === "waiting") {
    queued.add(job.id);
    return moves.waits(ctx, fresh, grant.reason);
  }
  queued.delete(job.id);
  // What it is told is put together before the row says that it begins: what cannot be fails it in the queue.
  const task = model && taskOf(ctx, fresh, { model, devices: grant.devices, checkpoint });
  const placed = moves.place(ctx, fresh, checkpoint);
  if (!placed) return leaveQueue(ctx, job.id);
  const cards = grant.devices.length > 0 ? grant.deviceIds : [];
  if (task) start(ctx, { job: placed, task, cards });
  else startCustom(ctx, placed, cards);
}

/** Gives back its memory, or its place in the line for it. */
export function leaveQueue(ctx: Ctx, id: string) {
  liveOf(ctx.db).queued.delete(id);
  gpu.release(ctx, id);
}
