/** Published jobs of active workspaces, which anyone may see. */
import { createHmac } from "node:crypto";
import { and, asc, desc, eq, isNotNull, lt, type SQL, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { isoTime } from "../../../lib/time.ts";
import { HEADLINE_METRIC } from "../../../lib/training/metrics.ts";
import { type Db, prepared, write } from "../../../platform/db/db.ts";
import { workspaces } from "../../access/workspaces/table.ts";
import { trainingJobs, trainingMetrics } from "../training_jobs/table.ts";
import { type PublicRun, type PublicRunList, type PublicRunsQuery, present, type RunRow } from "./schema.ts";
import { publicRunLikes } from "./table.ts";

const { id, outputName, method, status, likeCount, baseModel, step, totalSteps } = trainingJobs;
const { startedAt, completedAt, updatedAt, publishedAt, trackerRunUrl, hubRepoUrl } = trainingJobs;
const COLUMNS = {
  id,
  outputName,
  method,
  status,
  likeCount,
  baseModel,
  step,
  totalSteps,
  startedAt,
  completedAt,
  updatedAt,
  publishedAt,
  trackerRunUrl,
  hubRepoUrl,
  publisher: workspaces.name,
};

const published = (db: Db, where: SQL | undefined) =>
  db
    .select(COLUMNS)
    .from(trainingJobs)
    .innerJoin(workspaces, eq(workspaces.id, trainingJobs.workspaceId))
    .where(and(isNotNull(publishedAt), eq(trainingJobs.publish, true), eq(workspaces.status, "active"), where))
    .orderBy(desc(publishedAt));

/** Newest first, strictly before the cursor. Times of publication are unique, so no page skips a run. */
export function list(ctx: Ctx, query: PublicRunsQuery): PublicRunList {
  const cursor = query.cursor ?? query.before;
  const before =
    cursor === undefined ? undefined : millisecondsOf(cursor, query.cursor === undefined ? "before" : "cursor");
  if (!ctx.config.public_runs.enabled) return { object: "list", data: [], has_more: false, next_cursor: null };
  const rows = published(ctx.db, before === undefined ? undefined : lt(publishedAt, before))
    .limit(query.limit + 1)
    .all();
  const runs = rows.slice(0, query.limit);
  const has_more = rows.length > query.limit;
  const last = runs.at(-1)?.publishedAt;
  return {
    object: "list",
    data: runs.map((row) => presentRun(ctx, row)),
    has_more,
    next_cursor: has_more && typeof last === "number" ? isoTime(last) : null,
  };
}

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.(\d+))?(?:Z|[+-]\d\d:\d\d)$/;

/** Milliseconds, rounded up: a run in the same millisecond as a finer cursor counts as before it. */
export function millisecondsOf(text: string, param = "cursor"): number {
  const spaced = text.replace(" ", "+"); // the plus sign of an offset may not be encoded
  const fraction = INSTANT.exec(spaced)?.[1];
  const ms = INSTANT.test(spaced) ? Date.parse(spaced) : Number.NaN;
  if (Number.isNaN(ms))
    throw new AppError("invalid_cursor", `${param}: must be a time such as 2026-01-31T12:00:00.000Z`, { param });
  return /[1-9]/.test(fraction?.slice(3) ?? "") ? ms + 1 : ms;
}

export function mustGet(ctx: Ctx, runId: string): PublicRun {
  const row = ctx.config.public_runs.enabled ? published(ctx.db, eq(id, runId)).get() : undefined;
  if (!row) throw new AppError("resource_not_found", `No public run ${runId.slice(0, 80)}`, { param: "id" });
  return presentRun(ctx, row);
}

const presentRun = (ctx: Ctx, row: RunRow) => present(row, headlineOf(ctx, row));

const endOf = (order: typeof asc | typeof desc) =>
  prepared((db) => {
    const { jobId, step, values } = trainingMetrics;
    const value = sql<number>`json_extract(${values}, ${sql.placeholder("path")})`;
    return db
      .select({ step, value })
      .from(trainingMetrics)
      .where(and(eq(jobId, sql.placeholder("jobId")), isNotNull(value)))
      .orderBy(order(step))
      .limit(1)
      .prepare();
  });
const firstPoint = endOf(asc);
const lastPoint = endOf(desc);

function headlineOf({ db }: Ctx, row: RunRow): PublicRun["headline_metric"] {
  if (row.method === "custom") return null;
  const key = HEADLINE_METRIC[row.method];
  const path = `$."${key}"`;
  const first = firstPoint(db).get({ path, jobId: row.id });
  const latest = lastPoint(db).get({ path, jobId: row.id });
  if (!first || !latest) return null;
  return { key, latest: latest.value, first: first.value, delta: latest.value - first.value, step: latest.step };
}

/** One like for each run and client. Only a keyed hash of `client` is stored, which does not reveal the address. */
export function like(ctx: Ctx, runId: string, client: string): PublicRun {
  mustGet(ctx, runId);
  const hash = createHmac("sha256", ctx.secrets.derive("public-run-likes"))
    .update(`${runId} ${client}`)
    .digest("base64url");
  write(ctx.db, (tx) => {
    const row = { jobId: runId, client: hash, createdAt: ctx.clock.now() };
    const added = tx.insert(publicRunLikes).values(row).onConflictDoNothing().returning().all();
    if (added.length === 0) return;
    tx.update(trainingJobs)
      .set({ likeCount: sql`${likeCount} + 1` })
      .where(eq(id, runId))
      .run();
  });
  return mustGet(ctx, runId);
}
