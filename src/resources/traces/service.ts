import { and, asc, eq, gte, inArray, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { newId } from "../../lib/ids.ts";
import { write } from "../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../platform/db/row.ts";
import { deployments } from "../deployments/table.ts";
import { dropped, flush, scheduleFlush } from "./flush.ts";
import type { NewTrace } from "./new_trace.ts";
import { presentSummary, presentTrace, type TraceFilter, type TraceQuery } from "./schema.ts";
import { positionOf, positions, type Slice, summariesAt } from "./search/conditions.ts";
import { type SearchPage, search } from "./search/search.ts";
import { redactorFor, secretsOf } from "./store.ts";
import { type ScoreRow, type TraceRow, traceScores, traces } from "./table.ts";

const MAX_BUFFERED = 10_000;
const MAX_BUFFERED_BYTES = 64 * 1024 * 1024;

/** Never throws and never waits. A trace that finds the buffer full is dropped and counted. */
export function record(ctx: Ctx, trace: NewTrace) {
  const state = ctx.state.traces;
  const bytes = trace.bytes ?? 0;
  if (state.buffer.length >= MAX_BUFFERED || state.bufferedBytes + bytes > MAX_BUFFERED_BYTES)
    return dropped.add(ctx.db, trace.workspaceId, []);
  state.buffer.push({ trace, createdAt: ctx.clock.now() });
  state.bufferedBytes += bytes;
  scheduleFlush(ctx);
}

const byId = preparedRow(
  traces,
  and(eq(traces.id, sql.placeholder("id")), eq(traces.workspaceId, sql.placeholder("workspaceId"))),
);

export function mustGet(ctx: Ctx, workspaceId: string, id: string): TraceRow {
  flush(ctx);
  const row = byId(ctx.db, { id, workspaceId });
  if (row) return row;
  throw new AppError("resource_not_found", `No trace ${id.slice(0, 80)}: GET /v1/traces lists them`, { param: "id" });
}

const SEARCH_MS = 80; // then a page of a search may be short

/** A short page with `has_more`: the search goes on after its last trace. */
export async function list(ctx: Ctx, workspaceId: string, { limit, after, ...filter }: TraceQuery) {
  const until = performance.now() + SEARCH_MS;
  mustNameScore(filter);
  flush(ctx);
  const from = after === undefined ? undefined : positionOf(ctx.db, after);
  const { page, isOver } = await find(
    ctx,
    workspaceId,
    filter,
    { order: "newest", after: from, limit: limit + 1 },
    until,
  );
  const data = summariesAt(ctx.db, page.slice(0, limit)).map(presentSummary);
  return { object: "list" as const, data, has_more: page.length > limit || !isOver };
}

/** A page under all filters. Only a search may take until then. */
export function find(
  ctx: Ctx,
  workspaceId: string,
  filter: TraceFilter,
  slice: Slice,
  until?: number,
): SearchPage | Promise<SearchPage> {
  if (filter.q !== undefined) return search(ctx.db, workspaceId, filter, slice, until);
  return { page: positions(ctx.db, workspaceId, filter, slice), isOver: true };
}

export function mustNameScore({ score, min_score, max_score }: Omit<TraceQuery, "limit" | "after">) {
  if (score !== undefined || (min_score === undefined && max_score === undefined)) return;
  const param = min_score === undefined ? "max_score" : "min_score";
  throw new AppError("schema", `${param}: needs the name of a score: add score=NAME`, { param });
}

const scoresOf = (ctx: Ctx, ids: readonly string[]): ScoreRow[] =>
  ctx.db
    .select()
    .from(traceScores)
    .where(inArray(traceScores.traceId, [...ids]))
    .orderBy(asc(traceScores.createdAt), asc(traceScores.id))
    .all();

/** Traces as the API shows them. */
export function withScores(ctx: Ctx, rows: readonly TraceRow[]) {
  const ids = rows.map(({ id }) => id);
  const scores = Map.groupBy(scoresOf(ctx, ids), ({ traceId }) => traceId);
  return rows.map((row) => presentTrace(row, scores.get(row.id) ?? []));
}

export type NewScore = {
  workspaceId: string;
  traceId: string;
  name: string;
  value: number | boolean | string;
  kind?: ScoreRow["kind"] | undefined;
  source: ScoreRow["source"];
  evaluatorId?: string | null;
  keyId?: string | null;
  comment?: string | null;
};

const LONGEST_CATEGORY = 100;
const insertScore = preparedInsert(traceScores);

/** Joins the open commit if there is one. Its texts lose what the content of the trace loses: they may quote it. */
export function addScore(ctx: Ctx, score: NewScore): ScoreRow {
  const { workspaceId, value } = score;
  const trace = mustGet(ctx, workspaceId, score.traceId);
  const redactor = redactorFor(ctx, patternsOf(ctx, trace));
  const clean = (text: string) => redactor.text(text, secretsOf(ctx, workspaceId));
  const now = ctx.clock.now();
  const row: ScoreRow = {
    id: newId("scr", now),
    workspaceId,
    traceId: trace.id,
    traceSeq: trace.seq,
    traceAt: trace.createdAt,
    name: clean(score.name),
    kind: score.kind ?? kindOf(value),
    value: typeof value === "string" ? null : Number(value),
    label: typeof value === "string" ? clean(value) : null,
    source: score.source,
    evaluatorId: score.evaluatorId ?? null,
    keyId: score.keyId ?? null,
    comment: typeof score.comment === "string" ? clean(score.comment) : null,
    createdAt: now,
  };
  write(ctx.db, (tx) => insertScore(tx, row));
  return row;
}

function patternsOf(ctx: Ctx, { deploymentId }: TraceRow): readonly string[] {
  if (deploymentId === null) return [];
  const { id, captureRedact } = deployments;
  return ctx.db.select({ captureRedact }).from(deployments).where(eq(id, deploymentId)).get()?.captureRedact ?? [];
}

function kindOf(value: NewScore["value"]): ScoreRow["kind"] {
  if (typeof value === "number") return "number";
  if (typeof value === "boolean") return "boolean";
  return value.length <= LONGEST_CATEGORY ? "category" : "text";
}

type Sample = { workspaceId: string; deploymentId: string; since: number; rate: number; limit?: number };
const BUCKETS = 10_000;
const SPREAD = 2_654_435_761; // shares no factor with BUCKETS: neighbours fall into buckets far apart

/**
 * A share of the captured traces since a time, oldest first. The choice depends on the trace alone, so it is
 * repeatable. A caller that gets `limit` traces goes on from the `createdAt` of the last one.
 */
export function sample(ctx: Ctx, { workspaceId, deploymentId, since, rate, limit = 1_000 }: Sample): TraceRow[] {
  flush(ctx);
  return ctx.db
    .select()
    .from(traces)
    .where(
      and(
        eq(traces.deploymentId, deploymentId),
        sql`+${traces.workspaceId} = ${workspaceId}`,
        gte(traces.createdAt, since),
        eq(traces.capture, "full"),
        sql`(${traces.seq} * ${SPREAD}) % ${BUCKETS} < ${rate * BUCKETS}`,
      ),
    )
    .orderBy(asc(traces.createdAt), asc(traces.seq))
    .limit(limit)
    .all();
}

/** Called when the workspace is deleted. The loop removes its traces in small commits. */
export const removeAll = (ctx: Ctx) => ctx.wake("traces.prune");
