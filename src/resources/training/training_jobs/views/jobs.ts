/** Jobs as callers see them, with their position in the queue. */
import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { type PageQuery, page } from "../../../../http/answer/pagination.ts";
import { runTime } from "../../../money/billing/run_time.ts";
import { present, type TrainingJob } from "../schema.ts";
import { heldBack, positionOf, reasonOf } from "../state/queue.ts";

import { type JobRow, trainingJobs } from "../table.ts";
import { loadOf } from "./load.ts";

export const presentJob = (ctx: Ctx, row: JobRow): TrainingJob => presentWith(ctx, row, true);

function presentWith(ctx: Ctx, row: JobRow, withSource: boolean): TrainingJob {
  const queuePosition = positionOf(ctx, row);
  const load = loadOf(ctx, row);
  const queueReason = load && row.status === "queued" ? load.reason : reasonFor(ctx, row, queuePosition);
  return present(row, { now: runTime(ctx, row.id), withSource, queuePosition, queueReason, load });
}

const reasonFor = (ctx: Ctx, row: JobRow, position: number | null): string | null =>
  (row.status === "queued" ? heldBack(ctx, row.workspaceId) : undefined) ?? reasonOf(ctx, row, position);

type ListQuery = PageQuery & {
  status?: JobRow["status"] | undefined;
  method?: JobRow["method"] | undefined;
  dataset_id?: string | undefined;
};

export function listJobs(ctx: Ctx, workspaceId: string, query: ListQuery) {
  const { status, method, dataset_id: datasetId } = query;
  const within = and(
    eq(trainingJobs.workspaceId, workspaceId),
    status === undefined ? undefined : eq(trainingJobs.status, status),
    method === undefined ? undefined : eq(trainingJobs.method, method),
    datasetId === undefined ? undefined : eq(trainingJobs.datasetId, datasetId),
  );
  return page(ctx.db, trainingJobs, within, query, (row) => presentWith(ctx, row, false));
}
