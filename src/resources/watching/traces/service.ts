import { and, asc, eq, gte, inArray, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { deployments } from "../../serving/deployments/table.ts";
import { countScores } from "./counts.ts";
import { dropped, flush, scheduleFlush } from "./flush.ts";
import type { NewTrace } from "./new_trace.ts";
import { removeWhere } from "./remove.ts";
import { presentSummary, presentTrace, type SummaryRow, type TraceFilter, type TraceQuery } from "./schema.ts";
import { cursorOf, type Position, positionOf, type Slice, summariesAt } from "./search/positions.ts";
import { search } from "./search/search.ts";
import { collect, type ListPage } from "./search/slices.ts";
import { walk } from "./search/walk.ts";
import { redactorFor, secretsOf } from "./store.ts";
import { type ScoreRow, type TraceRow, traceScores, traces } from "./table.ts";

/** Never throws and never waits. A trace that finds the buffer full is dropped and counted. */
export function record(ctx: Ctx, trace: NewTrace) {
  if (ctx.state.traces.buffer.add(trace, ctx.clock.now())) scheduleFlush(ctx);
  else dropped.add(ctx.db, trace.workspaceId, []);
}

const byId = preparedRow(
  traces,
  and(eq(traces.id, sql.placeholder("id")), eq(traces.workspaceId, sql.placeholder("workspaceId"))),
);

export function mustGet(ctx: Ctx, workspaceId: string, id: string): TraceRow {
  const stored = byId(ctx.db, { id, workspaceId });
  if (!stored) flush(ctx, workspaceId);
  const row = stored ?? byId(ctx.db, { id, workspaceId });
  if (row) return row;
  throw new AppError("resource_not_found", `No trace ${id.slice(0, 80)}: GET /v1/traces lists them`, { param: "id" });
}

/** With its text in the search, and with its scores. */
export function remove(ctx: Ctx, workspaceId: string, id: string) {
  const { seq } = mustGet(ctx, workspaceId, id);
  write(ctx.db, (tx) => removeWhere(tx, eq(traces.seq, seq), 1));
}

const LIST_MS = 80; // then a page may be short or empty

/** A short page with `has_more`: the list goes on after `next_after`. */
export async function list(ctx: Ctx, workspaceId: string, { limit, after, ...filter }: TraceQuery) {
  const until = performance.now() + LIST_MS;
  mustNameScore(filter);
  const from = after === undefined ? undefined : positionOf(ctx.db, after);
  const { page, next } = await find(ctx, workspaceId, filter, { order: "newest", after: from, limit }, until);
  const data = await summaries(ctx, page);
  return { object: "list" as const, data, has_more: next !== undefined, next_after: next ? cursorOf(next) : null };
}

const ROWS = 10; // read at a time: behind a large content, a row takes long to read

async function summaries(ctx: Ctx, page: readonly Position[]) {
  const turn = takingTurns();
  const rows: SummaryRow[] = [];
  for (let i = 0; i < page.length; i += ROWS) {
    await turn();
    rows.push(...summariesAt(ctx.db, page.slice(i, i + ROWS)));
  }
  const { traceId, name, kind, value, label } = traceScores;
  const scores = ctx.db
    .select({ traceId, name, kind, value, label })
    .from(traceScores)
    .where(
      inArray(
        traceId,
        rows.map(({ id }) => id),
      ),
    )
    .orderBy(asc(traceScores.createdAt), asc(traceScores.id))
    .all();
  const ofTrace = Map.groupBy(scores, (score) => score.traceId);
  return rows.map((row) => presentSummary(row, ofTrace.get(row.id) ?? []));
}

/** A page under all filters. It is short if the time `until` passes first. */
export const find = (
  { db }: Ctx,
  workspaceId: string,
  filter: TraceFilter,
  slice: Slice,
  until?: number,
): Promise<ListPage> =>
  collect((filter.q === undefined ? walk : search)(db, workspaceId, filter, slice), slice.limit, until);

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
  const clean = redactorFor(ctx, patternsOf(ctx, trace)).cleaner(secretsOf(ctx, workspaceId));
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
  write(ctx.db, (tx) => {
    insertScore(tx, row);
    countScores(tx, [{ ...row, source: trace.source }], 1);
  });
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
  flush(ctx, workspaceId);
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
