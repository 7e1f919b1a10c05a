/** The queue of all workspaces, read from the rows, and the position of each job in it. */
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { quotaOf } from "../../../../platform/config/quotas.ts";
import { type Db, generationOf, prepared, type Tx } from "../../../../platform/db/db.ts";
import { gpuHoursSince } from "../../../money/cost/history.ts";
import type { JobRow } from "../table.ts";
import { inOrder, type Waiting } from "./queue_order.ts";

/** The region of jobs that run on this machine. */
export const LOCAL = "local";

/** Jobs that one round of the loop tries to start. */
export const MOST_TRIED = 16;

/**
 * The index training_jobs_queue has every column, so that no row with its code is read. A job that still reads its
 * dataset is not in the queue.
 */
const queued = prepared((db) =>
  db.$client.prepare<Waiting, []>(
    `SELECT id, workspace_id AS workspaceId, priority, queued_at AS queuedAt, not_before AS notBefore, region
     FROM training_jobs INDEXED BY training_jobs_queue
     WHERE completed_at IS NULL AND status = 'queued' AND reading IS NULL`,
  ),
);
/** Jobs of other regions. Most servers have none, so they have an index of their own. */
const remote = prepared((db) =>
  db.$client.prepare<Waiting, []>(
    `SELECT id, workspace_id AS workspaceId, priority, queued_at AS queuedAt, not_before AS notBefore, region
     FROM training_jobs INDEXED BY training_jobs_remote_queue
     WHERE completed_at IS NULL AND status = 'queued' AND reading IS NULL AND region <> 'local'`,
  ),
);
const running = prepared((db) =>
  db.$client.prepare<{ workspaceId: string }, []>(
    `SELECT workspace_id AS workspaceId FROM training_jobs INDEXED BY training_jobs_live
     WHERE completed_at IS NULL AND status IN ('provisioning', 'running')`,
  ),
);
const waiting = prepared((db) =>
  db.$client.prepare<{ n: number }, [string]>(
    `SELECT count(*) AS n FROM training_jobs INDEXED BY training_jobs_standing
     WHERE completed_at IS NULL AND workspace_id = ? AND status IN ('queued', 'paused')`,
  ),
);

/** Jobs of the workspace that run or are being started, here or in other regions. */
const runningOf = (db: Db, workspaceId: string): number =>
  running(db)
    .all()
    .filter((row) => row.workspaceId === workspaceId).length;

export const queuedJobs = (db: Db): Waiting[] => queued(db).all();
export const remoteJobs = (db: Db): Waiting[] => remote(db).all();

/**
 * 1 for the job that starts next; null for a job that does not wait. Cached until this process writes again, so a list
 * of jobs sorts the queue once at most.
 */
export function positionOf(ctx: Pick<Ctx, "db" | "state">, row: Pick<JobRow, "id" | "status">): number | null {
  if (row.status !== "queued") return null;
  const positions = ctx.state.trainingJobs.positions(generationOf(ctx.db), () => positionsOf(ctx));
  return positions.get(row.id) ?? null;
}

function positionsOf({ db, state }: Pick<Ctx, "db" | "state">): Map<string, number> {
  const workspaces = running(db)
    .all()
    .map(({ workspaceId }) => workspaceId);
  const { lastStarts } = state.trainingJobs;
  const order = inOrder(queuedJobs(db), { running: workspaces, lastStarts }, Number.POSITIVE_INFINITY);
  let position = 0;
  return new Map(order.map(({ id }) => [id, ++position]));
}

/**
 * The reason why a queued job has not started. The row has it for a job that the loop tried to start. For the jobs
 * behind those nothing is written: their reason follows from their position.
 */
export function reasonOf(ctx: Pick<Ctx, "config" | "state">, row: JobRow, position: number | null): string | null {
  if (row.status !== "queued" || row.region !== LOCAL) return row.queueReason;
  const { runCount } = ctx.state.trainingJobs;
  const { parallel } = ctx.config.training;
  if (runCount < parallel && (position ?? 0) <= MOST_TRIED) return row.queueReason;
  return `waits for earlier jobs: ${runCount} running, ${parallel} at most (training.parallel)`;
}

/** 429 if the workspace already has the most jobs that may be queued or paused. */
export function mustHaveRoom({ config, db }: { config: Ctx["config"]; db: Db | Tx }, workspaceId: string) {
  const most = config.training.max_waiting_jobs;
  const count = waiting(db).get(workspaceId)?.n ?? 0;
  if (count < most) return;
  throw new AppError(
    "queue_full",
    `This workspace has ${count} training jobs that are queued or paused; the limit is ${most} (training.max_waiting_jobs). Wait until some have ended, or cancel some with POST /v1/training_jobs/{id}/cancel`,
    { retryAfterSeconds: RETRY_SECONDS },
  );
}

const RETRY_SECONDS = 60;

/** The reason why no further job of the workspace starts now. `starting`: its jobs that start but are not in the rows yet. */
export function heldBack(ctx: Ctx, workspaceId: string, starting = 0): string | undefined {
  const { most, setting } = quotaOf(ctx.config, workspaceId, "running_jobs");
  if (most > 0) {
    const running = runningOf(ctx.db, workspaceId) + starting;
    if (running >= most)
      return `waits for earlier jobs of this workspace: ${running} running, ${most} at most (${setting})`;
  }
  const spent = spentHours(ctx, workspaceId);
  return spent === undefined ? undefined : `waits for the next month: ${spent}`;
}

/** 429 if the GPU hours of this month are used up. */
export function mustHaveHours(ctx: Ctx, workspaceId: string) {
  const spent = spentHours(ctx, workspaceId);
  if (spent !== undefined)
    throw new AppError("monthly_quota_exceeded", `No job can be created until the next month: ${spent}`, {
      retryAfterSeconds: (startOfMonth(ctx.clock.now(), 1) - ctx.clock.now()) / 1000,
    });
}

function spentHours(ctx: Ctx, workspaceId: string): string | undefined {
  const { most, setting } = quotaOf(ctx.config, workspaceId, "gpu_hours");
  if (most === 0) return undefined;
  const hours = gpuHoursSince(ctx, workspaceId, startOfMonth(ctx.clock.now()));
  return hours < most
    ? undefined
    : `this workspace has used ${hours.toFixed(1)} GPU hours since the first of the month (UTC), ${most} at most (${setting})`;
}

function startOfMonth(nowMs: number, monthsLater = 0): number {
  const now = new Date(nowMs);
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + monthsLater, 1);
}
