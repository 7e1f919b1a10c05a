/**
 * Filters of traces as SQL. One filter chooses the index: the first of `conditions` that may. The others carry a unary
 * plus, which hides their column from the planner. A range over durations or scores chooses only if few rows match;
 * otherwise the list is walked by time: in the traces, or in the scores if no other filter chooses.
 */
import { and, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { Db } from "../../../../platform/db/db.ts";
import { REQUESTS, type TraceFilter } from "../schema.ts";
import { traceScores, traces } from "../table.ts";

const FEW = 5_000; // rows that are looked up

/** An index without the empty name has its rows in the order of the list, unless they are few. */
export type Condition = {
  index: string;
  /** The condition that goes with `index`. */
  chooses: SQL;
  /** The same for a row that another index has found. */
  checks: SQL;
  mayChoose: boolean;
  /** All its rows may be read and sorted in one step. */
  isFew?: boolean;
  /** The index may hold rows of other workspaces, if the caller gives an id of another workspace. */
  isShared?: boolean;
  /** The same for `trace_scores`. */
  walks?: { named: SQL; ranged: SQL | undefined };
};

export const hidden = (column: SQLiteColumn) => sql`+${column}`;

const equal = (index: string, column: SQLiteColumn, value: string | number, isShared: boolean): Condition => ({
  index,
  chooses: sql`${column} = ${value}`,
  checks: sql`${hidden(column)} = ${value}`,
  mayChoose: true,
  isShared,
});

export function conditions(db: Db, workspaceId: string, filter: TraceFilter): Condition[] {
  const { conversation_id, job_id, score, status, source, key_id, deployment_id, user, model, tag } = filter;
  return [
    conversation_id === undefined
      ? undefined
      : equal("traces_conversation", traces.conversationId, conversation_id, false),
    job_id === undefined ? undefined : equal("traces_job_newest", traces.jobId, job_id, true),
    user === undefined ? undefined : equal("traces_user", traces.user, user, false),
    score === undefined ? undefined : byScore(db, workspaceId, filter),
    status === undefined ? undefined : byStatus(status),
    byDuration(db, workspaceId, filter),
    source === undefined || source === REQUESTS ? undefined : bySource(source),
    key_id === undefined ? undefined : equal("traces_key", traces.keyId, key_id, true),
    deployment_id === undefined ? undefined : equal("traces_deployment", traces.deploymentId, deployment_id, true),
    model === undefined ? undefined : equal("traces_model", traces.model, model, false),
    tag === undefined ? undefined : byTag(tag),
    source === REQUESTS ? BY_REQUESTS : undefined,
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

/** The text of the partial index. */
const BY_REQUESTS: Condition = {
  index: "traces_requests",
  chooses: sql`${traces.source} NOT IN ('rollout', 'evaluation')`,
  checks: sql`${hidden(traces.source)} NOT IN ('rollout', 'evaluation')`,
  mayChoose: true,
};

/** Does the same as the condition, for one value. */
export const passesSource = (source: string, wanted: TraceFilter["source"]): boolean =>
  wanted === undefined || (wanted === REQUESTS ? source !== "rollout" && source !== "evaluation" : source === wanted);

const byTag = (tag: string): Condition => ({
  index: "",
  chooses: sql`true`,
  checks: sql`EXISTS (SELECT 1 FROM json_each(${hidden(traces.tags)}) WHERE json_each.value = ${tag})`,
  mayChoose: false,
});

function byDuration(db: Db, workspaceId: string, filter: TraceFilter): Condition | undefined {
  const { min_duration_ms: min, max_duration_ms: max } = filter;
  if (min === undefined && max === undefined) return undefined;
  const within = (column: SQL) =>
    max === undefined ? sql`${column} >= ${min}` : sql`${column} >= ${min ?? 0} AND ${column} <= ${max}`;
  const chooses = within(sql`${traces.durationMs}`);
  const rows = sql`SELECT 1 FROM ${traces} INDEXED BY traces_duration WHERE ${traces.workspaceId} = ${workspaceId} AND ${chooses}`;
  const few = isFew(db, rows);
  return { index: "traces_duration", chooses, checks: within(hidden(traces.durationMs)), mayChoose: few, isFew: few };
}

function byScore(db: Db, workspaceId: string, { score, min_score: min, max_score: max }: TraceFilter): Condition {
  const { value, name, traceId, traceSeq, workspaceId: owner } = traceScores;
  const named = sql`${owner} = ${workspaceId} AND ${name} = ${score}`;
  const ranged = and(
    min === undefined ? undefined : sql`${value} >= ${min}`,
    max === undefined ? undefined : sql`${value} <= ${max}`,
  );
  const all = and(named, ranged);
  const rows = sql`SELECT ${traceSeq} FROM ${traceScores} INDEXED BY trace_scores_value WHERE ${all}`;
  const scoresOfTrace = sql`SELECT 1 FROM ${traceScores} INDEXED BY trace_scores_trace WHERE ${traceId} = ${traces.id}`;
  const few = isFew(db, rows);
  return {
    index: "",
    chooses: sql`${traces.seq} IN (${rows})`,
    checks: sql`EXISTS (${scoresOfTrace} AND ${all})`,
    mayChoose: few,
    isFew: few,
    walks: { named, ranged },
  };
}

const isFew = (db: Db, rows: SQL): boolean =>
  db.all<{ n: number }>(sql`SELECT count(*) AS n FROM (${rows} LIMIT ${FEW + 1})`).every(({ n }) => n <= FEW);
