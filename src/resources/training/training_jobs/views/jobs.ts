/** Jobs as callers see them, with their position in the queue. */
import { and, eq, type SQL, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { type PageQuery, page } from "../../../../http/answer/pagination.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { prepared } from "../../../../platform/db/db.ts";
import { datasets } from "../../../data/datasets/table.ts";
import { runTime } from "../../../money/billing/run_time.ts";
import { present, type TrainingJob } from "../schema.ts";
import { heldBack, positionOf, reasonOf } from "../state/queue.ts";
import { type JobRow, trainingJobs } from "../table.ts";
import { type Field, fieldsOf, picked } from "./fields.ts";
import { loadOf } from "./load.ts";

export const presentJob = (ctx: Ctx, row: JobRow): TrainingJob => presentWith(ctx, row, true);

function presentWith(ctx: Ctx, row: JobRow, withSource: boolean): TrainingJob {
  const queuePosition = positionOf(ctx, row);
  const load = loadOf(ctx, row);
  const queueReason = load && row.status === "queued" ? load.reason : reasonFor(ctx, row, queuePosition);
  const datasetName = (id: string) => nameOfDataset(ctx.db).get({ id })?.name ?? null;
  return present(row, { now: runTime(ctx, row.id), withSource, queuePosition, queueReason, load, datasetName });
}

const nameOfDataset = prepared((db) =>
  db
    .select({ name: datasets.name })
    .from(datasets)
    .where(eq(datasets.id, sql.placeholder("id")))
    .prepare(),
);

const reasonFor = (ctx: Ctx, row: JobRow, position: number | null): string | null =>
  (row.status === "queued" ? heldBack(ctx, row.workspaceId) : undefined) ?? reasonOf(ctx, row, position);

type ListQuery = PageQuery & {
  status?: JobRow["status"] | undefined;
  method?: JobRow["method"] | undefined;
  dataset_id?: string | undefined;
  tag?: string | undefined;
  group?: string | undefined;
  fields?: string | undefined;
};

type Listed = { object: "list"; data: object[]; has_more: boolean };

export function listJobs(ctx: Ctx, workspaceId: string, query: ListQuery): Listed | Promise<Listed> {
  const { status, method, dataset_id: datasetId, tag, group, fields } = query;
  const within = and(
    eq(trainingJobs.workspaceId, workspaceId),
    status === undefined ? undefined : eq(trainingJobs.status, status),
    method === undefined ? undefined : eq(trainingJobs.method, method),
    datasetId === undefined ? undefined : eq(trainingJobs.datasetId, datasetId),
    group === undefined ? undefined : eq(trainingJobs.group, group),
    tag === undefined ? undefined : sql`exists (select 1 from json_each(${trainingJobs.tags}) where value = ${tag})`,
  );
  if (fields !== undefined) return longList(ctx, within, query, fieldsOf(fields));
  return page(ctx.db, trainingJobs, within, query, (row) => presentWith(ctx, row, false));
}

const AT_ONCE = 50;

/** A page with chosen fields may be long, so it is read in pieces. */
async function longList(ctx: Ctx, within: SQL | undefined, query: ListQuery, fields: readonly Field[]) {
  const turn = takingTurns();
  const data: { id: string }[] = [];
  for (let { after } = query; ; after = data.at(-1)?.id) {
    await turn();
    const limit = Math.min(AT_ONCE, query.limit - data.length);
    const part = page(ctx.db, trainingJobs, within, { limit, after }, (row) =>
      picked(presentWith(ctx, row, false), fields),
    );
    data.push(...part.data);
    if (!part.has_more || data.length >= query.limit) return { object: "list" as const, data, has_more: part.has_more };
  }
}
