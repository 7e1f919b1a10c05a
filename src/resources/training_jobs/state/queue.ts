/** The queue of all workspaces as the rows have it, and the position of each job in it. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { oncePer } from "../../../lib/once_per.ts";
import { type Db, generationOf, prepared, type Tx } from "../../../platform/db/db.ts";
import type { JobRow } from "../table.ts";
import { liveOf } from "./live.ts";
import { inOrder, type Waiting } from "./queue_order.ts";

/** Jobs that one round of the loop tries to start. */
export const MOST_TRIED = 16;

/** The index training_jobs_queue has every column, so that no row with its code is read. */
const queued = prepared((db) =>
  db.$client.prepare<Waiting, []>(
    `SELECT id, workspace_id AS workspaceId, priority, queued_at AS queuedAt, not_before AS notBefore
     FROM training_jobs INDEXED BY training_jobs_queue WHERE completed_at IS NULL AND status = 'queued'`,
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

export const queuedJobs = (db: Db): Waiting[] => queued(db).all();

type Positions = { generation: number; of: ReadonlyMap<string, number> };
const positions = oncePer((_db: Db): { last?: Positions } => ({}));

/**
 * 1 for the job that starts next; null for a job that does not wait. Cached until this process writes again, so a list
 * of jobs sorts the queue once at most.
 */
export function positionOf({ db }: Pick<Ctx, "db">, row: Pick<JobRow, "id" | "status">): number | null {
  if (row.status !== "queued") return null;
  const cache = positions(db);
  const generation = generationOf(db);
  if (cache.last?.generation !== generation) {
    const runs = running(db).all();
    const order = inOrder(
      queuedJobs(db),
      runs.map(({ workspaceId }) => workspaceId),
      Number.POSITIVE_INFINITY,
    );
    let place = 0;
    cache.last = { generation, of: new Map(order.map(({ id }) => [id, ++place])) };
  }
  return cache.last.of.get(row.id) ?? null;
}

/**
 * The reason why a queued job has not started. The row has it for a job that the loop tried to start. For the jobs
 * behind those nothing is written: their reason follows from their position.
 */
export function reasonOf(ctx: Pick<Ctx, "db" | "config">, row: JobRow, position: number | null): string | null {
  if (row.status !== "queued") return row.queueReason;
  const runs = liveOf(ctx.db).runs.size;
  const { parallel } = ctx.config.training;
  if (runs < parallel && (position ?? 0) <= MOST_TRIED) return row.queueReason;
  return `waits for its turn: ${runs === 1 ? "1 job runs" : `${runs} jobs run`}, ${parallel} at most (training.parallel)`;
}

/** 429 when the workspace has as many jobs that wait, queued or paused, as it may. */
export function mustHaveRoom({ config, db }: { config: Ctx["config"]; db: Db | Tx }, workspaceId: string) {
  const most = config.training.max_waiting_jobs;
  const there = waiting(db).get(workspaceId)?.n ?? 0;
  if (there < most) return;
  throw new AppError(
    "queue_full",
    `This workspace has ${there} training jobs that are queued or paused, and ${most} is the most it may have (training.max_waiting_jobs): wait until some have ended, or cancel some with POST /v1/training_jobs/{id}/cancel`,
    { retryAfterSeconds: RETRY_SECONDS },
  );
}

const RETRY_SECONDS = 60;
