/** Jobs as callers see them, with their position in the queue. */
import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { present, type TrainingJob } from "../schema.ts";
import { positionOf, reasonOf } from "../state/queue.ts";
import { type JobRow, trainingJobs } from "../table.ts";

export const presentJob = (ctx: Ctx, row: JobRow): TrainingJob =>
  presentAt(ctx, row, { now: ctx.clock.now(), withSource: true });

function presentAt(ctx: Ctx, row: JobRow, how: { now: number; withSource: boolean }): TrainingJob {
  const queuePosition = positionOf(ctx, row);
  return present(row, { ...how, queuePosition, queueReason: reasonOf(ctx, row, queuePosition) });
}

type ListQuery = PageQuery & { status?: JobRow["status"] | undefined; method?: JobRow["method"] | undefined };

export function listJobs(ctx: Ctx, workspaceId: string, query: ListQuery) {
  const { status, method } = query;
  const within = and(
    eq(trainingJobs.workspaceId, workspaceId),
    status === undefined ? undefined : eq(trainingJobs.status, status),
    method === undefined ? undefined : eq(trainingJobs.method, method),
  );
  const now = ctx.clock.now();
  return page(ctx.db, trainingJobs, within, query, (row) => presentAt(ctx, row, { now, withSource: false }));
}
