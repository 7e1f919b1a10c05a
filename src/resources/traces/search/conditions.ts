/**
 * Pages of traces under filters. One filter chooses the index: the first of `conditions` that may. The others carry a
 * unary plus, which hides their column from the planner. A range over durations or scores chooses only if few rows
 * match; otherwise a page is found soon by time: in the traces, or in the scores if no other filter chooses. A search
 * (`q`) is in search.ts.
 */
import { and, desc, getTableColumns, gte, inArray, lt, lte, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { requireId } from "../../../http/answer/cursor.ts";
import { timeOf } from "../../../lib/ids.ts";
import type { Db } from "../../../platform/db/db.ts";
import type { SummaryRow, TraceFilter } from "../schema.ts";
import { type TraceRow, traceScores, traces } from "../table.ts";

const FEW = 5_000; // rows that are looked up
const FEW_ENTRIES = 100_000; // entries of an index alone

/**
 * `chooses`: the condition that goes with `index`. `checks`: the same for a row that another index has found. `walks`: the
 * same for `trace_scores`.
 */
export type Condition = { index: string; chooses: SQL; checks: SQL; mayChoose: boolean; walks?: SQL | undefined };

const hidden = (column: SQLiteColumn) => sql`+${column}`;

const equal = (index: string, column: SQLiteColumn, value: string | number): Condition => ({
  index,
  chooses: sql`${column} = ${value}`,
  checks: sql`${hidden(column)} = ${value}`,
  mayChoose: true,
});

export function conditions(db: Db, workspaceId: string, filter: TraceFilter): Condition[] {
  const { conversation_id, job_id, score, status, source, key_id, deployment_id } = filter;
  return [
    conversation_id === undefined ? undefined : equal("traces_conversation", traces.conversationId, conversation_id),
    job_id === undefined ? undefined : equal("traces_job", traces.jobId, job_id),
    score === undefined ? undefined : byScore(db, workspaceId, filter),
    status === undefined ? undefined : byStatus(status),
    byDuration(db, workspaceId, filter),
    source === undefined ? undefined : bySource(source),
    key_id === undefined ? undefined : equal("traces_key", traces.keyId, key_id),
    deployment_id === undefined ? undefined : equal("traces_deployment", traces.deploymentId, deployment_id),
  ].filter((each) => each !== undefined);
}

/** The literals are those of the partial indexes. */
function byStatus(status: NonNullable<TraceFilter["status"]>): Condition {
  const { status: column } = traces;
  if (status === "error")
    return {
      index: "traces_failed",
      chooses: sql`${column} >= 400`,
      checks: sql`${hidden(column)} >= 400`,
      mayChoose: true,
    };
  if (status === "ok") return { index: "", chooses: sql`true`, checks: sql`${hidden(column)} < 400`, mayChoose: false };
  const chooses = sql`${column} = ${status} AND ${column} <> 200`;
  return { index: "traces_status", chooses, checks: sql`${hidden(column)} = ${status}`, mayChoose: status !== 200 };
}

const bySource = (source: string): Condition => ({
  index: "traces_source",
  chooses: sql`${traces.source} = ${source} AND ${traces.source} <> 'chat'`,
  checks: sql`${hidden(traces.source)} = ${source}`,
  mayChoose: source !== "chat",
});

function byDuration(db: Db, workspaceId: string, filter: TraceFilter): Condition | undefined {
  const { min_duration_ms: min = 0, max_duration_ms: max, since, until, ...others } = filter;
  if (filter.min_duration_ms === undefined && max === undefined) return undefined;
  const isAlone = Object.values(others).every((value) => value === undefined);
  const within = (column: SQL) =>
    max === undefined ? sql`${column} >= ${min}` : sql`${column} >= ${min} AND ${column} <= ${max}`;
  const chooses = within(sql`${traces.durationMs}`);
  const rows = sql`SELECT 1 FROM ${traces} INDEXED BY traces_duration WHERE ${traces.workspaceId} = ${workspaceId} AND ${chooses}`;
  return {
    index: "traces_duration",
    chooses,
    checks: within(hidden(traces.durationMs)),
    mayChoose: isFew(db, rows, isAlone ? FEW_ENTRIES : FEW),
  };
}

function byScore(db: Db, workspaceId: string, { score, min_score: min, max_score: max }: TraceFilter): Condition {
  const { value, name, traceId, traceSeq, workspaceId: owner } = traceScores;
  const walks = and(
    sql`${owner} = ${workspaceId} AND ${name} = ${score}`,
    min === undefined ? undefined : sql`${value} >= ${min}`,
    max === undefined ? undefined : sql`${value} <= ${max}`,
  );
  const few = sql`SELECT ${traceSeq} FROM ${traceScores} INDEXED BY trace_scores_value WHERE ${walks}`;
  const own = sql`SELECT 1 FROM ${traceScores} INDEXED BY trace_scores_trace WHERE ${traceId} = ${traces.id}`;
  return {
    index: "",
    chooses: sql`${traces.seq} IN (${few})`,
    checks: sql`EXISTS (${own} AND ${walks})`,
    mayChoose: isFew(db, few, FEW),
    walks,
  };
}

const isFew = (db: Db, rows: SQL, most: number): boolean =>
  db.all<{ n: number }>(sql`SELECT count(*) AS n FROM (${rows} LIMIT ${most + 1})`).every(({ n }) => n <= most);

export type Position = { createdAt: number; seq: number };

/** An id is a position whether or not its trace still exists: if not, the place is before the trace with the id before. */
export function positionOf(db: Db, after: string): Position {
  requireId(traces, after);
  const { id, createdAt, seq } = traces;
  const found = db.select({ id, createdAt, seq }).from(traces).where(lte(id, after)).orderBy(desc(id)).limit(1).get();
  if (!found) return { createdAt: timeOf(after), seq: 0 };
  return { createdAt: found.createdAt, seq: found.id === after ? found.seq : found.seq + 1 };
}

export type Slice = { order: "newest" | "oldest"; after: Position | undefined; limit: number };

/** The traces of a page, in its order. The builder has no INDEXED BY, so the rows are read in a second query. */
export function positions(
  db: Db,
  workspaceId: string,
  filter: TraceFilter,
  { order, after, limit }: Slice,
): Position[] {
  const given = conditions(db, workspaceId, filter);
  const chooser = given.find(({ mayChoose }) => mayChoose);
  const walker = chooser ? undefined : given.find(({ walks }) => walks);
  const { createdAt, seq } = walker ? { createdAt: traceScores.traceAt, seq: traceScores.traceSeq } : traces;
  const [behind, direction] = order === "newest" ? [sql`<`, sql`desc`] : [sql`>`, sql`asc`];
  const where = and(
    sql`${traces.workspaceId} = ${workspaceId}`,
    chooser?.chooses ?? walker?.walks,
    ...given.filter((each) => each !== (chooser ?? walker)).map(({ checks }) => checks),
    filter.since === undefined ? undefined : gte(createdAt, Date.parse(filter.since)),
    filter.until === undefined ? undefined : lt(createdAt, Date.parse(filter.until)),
    after && sql`(${createdAt}, ${seq}) ${behind} (${after.createdAt}, ${after.seq})`,
  );
  const group = walker ? sql`group by ${createdAt}, ${seq}` : sql``; // a trace may have several scores of the name
  const ordered = sql`${group} order by ${createdAt} ${direction}, ${seq} ${direction} limit ${limit}`;
  const from = walker ? WALK : sql`${traces} ${indexedBy(chooser?.index ?? "traces_newest")}`;
  return db.all(sql`select ${createdAt} as "createdAt", ${seq} as "seq" from ${from} where ${where} ${ordered}`);
}

/** Leaves out the traces that do not pass the filters. The order is that of `seq`. */
export function positionsAmong(
  db: Db,
  workspaceId: string,
  { since, until }: TraceFilter,
  given: readonly Condition[],
  seqs: readonly number[],
  { order, limit }: Slice,
): Position[] {
  const { createdAt, seq } = traces;
  const where = and(
    sql`${hidden(traces.workspaceId)} = ${workspaceId}`,
    sql`${seq} IN (SELECT value FROM json_each(${JSON.stringify(seqs)}))`,
    ...given.map(({ checks }) => checks),
    since === undefined ? undefined : sql`${hidden(createdAt)} >= ${Date.parse(since)}`,
    until === undefined ? undefined : sql`${hidden(createdAt)} < ${Date.parse(until)}`,
  );
  const ordered = sql`order by ${seq} ${order === "newest" ? sql`desc` : sql`asc`} limit ${limit}`;
  return db.all(
    sql`select ${createdAt} as "createdAt", ${seq} as "seq" from ${traces} not indexed where ${where} ${ordered}`,
  );
}

const indexedBy = (index: string) => sql.raw(index === "" ? "not indexed" : `indexed by ${index}`);
const WALK = sql`${traceScores} indexed by trace_scores_newest cross join ${traces} not indexed on ${traces.seq} = ${traceScores.traceSeq}`;

const { parameters: _p, spans: _s, input: _i, output: _o, externalId: _e, ...SUMMARY } = getTableColumns(traces);

/** Without content, spans and parameters. */
export function summariesAt(db: Db, some: readonly Position[]): SummaryRow[] {
  const page = some.map(({ seq }) => seq);
  return inOrder(page, db.select(SUMMARY).from(traces).where(inArray(traces.seq, page)).all());
}

/** A trace that was removed in between is left out. */
export function rowsAt(db: Db, some: readonly Position[]): TraceRow[] {
  const page = some.map(({ seq }) => seq);
  return inOrder(page, db.select().from(traces).where(inArray(traces.seq, page)).all());
}

function inOrder<R extends { seq: number }>(seqs: readonly number[], rows: readonly R[]): R[] {
  const bySeq = new Map(rows.map((row) => [row.seq, row]));
  return seqs.flatMap((seq) => bySeq.get(seq) ?? []);
}
