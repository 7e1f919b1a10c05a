/**
 * Pages of traces under filters. One filter chooses the index: the first of `conditions` that may. The others carry a
 * unary plus, which hides their column from the planner. A range over durations or scores chooses only if few rows
 * match; otherwise a page is found soon by time alone.
 */
import { and, desc, getTableColumns, gte, inArray, lt, lte, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { requireId } from "../../http/answer/cursor.ts";
import { timeOf } from "../../lib/ids.ts";
import type { Db } from "../../platform/db/db.ts";
import type { SummaryRow, TraceFilter } from "./schema.ts";
import { type TraceRow, traceScores, traces } from "./table.ts";
import { search } from "./text.ts";

const FEW = 5_000;

/** `chooses`: the condition that goes with `index`. `checks`: the same for a row that another index has found. */
type Condition = { index: string; chooses: SQL; checks: SQL; mayChoose: boolean };

const hidden = (column: SQLiteColumn) => sql`+${column}`;

const equal = (index: string, column: SQLiteColumn, value: string | number): Condition => ({
  index,
  chooses: sql`${column} = ${value}`,
  checks: sql`${hidden(column)} = ${value}`,
  mayChoose: true,
});

function conditions(db: Db, workspaceId: string, filter: TraceFilter): Condition[] {
  const { q, conversation_id, job_id, score, status, source, key_id, deployment_id } = filter;
  return [
    q === undefined ? undefined : bySearch(search(db, workspaceId, q)),
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

function bySearch(seqs: readonly number[]): Condition {
  const chooses = sql`${traces.seq} IN (SELECT value FROM json_each(${JSON.stringify(seqs)}))`;
  return { index: "", chooses, checks: chooses, mayChoose: true };
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
  const { min_duration_ms: min = 0, max_duration_ms: max } = filter;
  if (filter.min_duration_ms === undefined && max === undefined) return undefined;
  const within = (column: SQL) =>
    max === undefined ? sql`${column} >= ${min}` : sql`${column} >= ${min} AND ${column} <= ${max}`;
  const chooses = within(sql`${traces.durationMs}`);
  const rows = sql`SELECT 1 FROM ${traces} INDEXED BY traces_duration WHERE ${traces.workspaceId} = ${workspaceId} AND ${chooses}`;
  return { index: "traces_duration", chooses, checks: within(hidden(traces.durationMs)), mayChoose: isFew(db, rows) };
}

function byScore(db: Db, workspaceId: string, { score, min_score: min, max_score: max }: TraceFilter): Condition {
  const { value, name, traceId, workspaceId: owner } = traceScores;
  const within = and(
    sql`${owner} = ${workspaceId} AND ${name} = ${score}`,
    min === undefined ? undefined : sql`${value} >= ${min}`,
    max === undefined ? undefined : sql`${value} <= ${max}`,
  );
  return {
    index: "sqlite_autoindex_traces_1",
    chooses: sql`${traces.id} IN (SELECT ${traceId} FROM ${traceScores} WHERE ${within})`,
    checks: sql`EXISTS (SELECT 1 FROM ${traceScores} WHERE ${traceId} = ${traces.id} AND ${within})`,
    mayChoose: isFew(db, sql`SELECT 1 FROM ${traceScores} WHERE ${within}`),
  };
}

const isFew = (db: Db, rows: SQL): boolean =>
  (db.get<{ n: number }>(sql`SELECT count(*) AS n FROM (${rows} LIMIT ${FEW + 1})`)?.n ?? 0) <= FEW;

export type Position = { createdAt: number; seq: number };

/** An id is a position whether or not its trace still exists: if not, the place is before the trace with the id before. */
export function positionOf(db: Db, after: string): Position {
  requireId(traces, after);
  const { id, createdAt, seq } = traces;
  const found = db.select({ id, createdAt, seq }).from(traces).where(lte(id, after)).orderBy(desc(id)).limit(1).get();
  if (!found) return { createdAt: timeOf(after), seq: 0 };
  return { createdAt: found.createdAt, seq: found.id === after ? found.seq : found.seq + 1 };
}

type Slice = { order: "newest" | "oldest"; after: Position | undefined; limit: number };

/** The traces of a page, in its order. The builder has no INDEXED BY, so the rows are read in a second query. */
export function positions(
  db: Db,
  workspaceId: string,
  filter: TraceFilter,
  { order, after, limit }: Slice,
): Position[] {
  const given = conditions(db, workspaceId, filter);
  const chooser = given.find(({ mayChoose }) => mayChoose);
  const { createdAt, seq } = traces;
  const [behind, direction] = order === "newest" ? [sql`<`, sql`desc`] : [sql`>`, sql`asc`];
  const where = and(
    sql`${traces.workspaceId} = ${workspaceId}`,
    chooser?.chooses,
    ...given.filter((each) => each !== chooser).map(({ checks }) => checks),
    filter.since === undefined ? undefined : gte(createdAt, Date.parse(filter.since)),
    filter.until === undefined ? undefined : lt(createdAt, Date.parse(filter.until)),
    after && sql`(${createdAt}, ${seq}) ${behind} (${after.createdAt}, ${after.seq})`,
  );
  const index = chooser?.index ?? "traces_newest";
  const by = sql.raw(index === "" ? "not indexed" : `indexed by ${index}`);
  const ordered = sql`order by ${createdAt} ${direction}, ${seq} ${direction} limit ${limit}`;
  return db.all(sql`select ${createdAt} as "createdAt", ${seq} from ${traces} ${by} where ${where} ${ordered}`);
}

const { parameters: _p, spans: _s, input: _i, output: _o, externalId: _e, ...SUMMARY } = getTableColumns(traces);

/** Without content, spans and parameters. */
export function summaries(db: Db, workspaceId: string, filter: TraceFilter, slice: Slice): SummaryRow[] {
  const page = positions(db, workspaceId, filter, slice).map(({ seq }) => seq);
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
