/**
 * Pages of a search in captured content. The order is that of `seq`, in which traces were recorded. A search reads one
 * block of traces after the other, and other work gets its turn in between.
 */
import { sql } from "drizzle-orm";
import type { Db } from "../../../platform/db/db.ts";
import type { TraceFilter } from "../schema.ts";
import { traces } from "../table.ts";
import { type Condition, conditions, type Position, positionsAmong, type Slice } from "./conditions.ts";
import { type Bounds, blockOf, matchesBetween, matchesIn, parseQuery, type TextQuery } from "./text.ts";

const TURN_MS = 8; // then other work gets its turn
const CHUNK = 500; // matches that are looked up at a time
const BATCH = 2_000; // matches of a query with a prefix
const FEW = 5_000; // traces under the other filters whose blocks alone are searched
const CLOCK_SLACK_MS = 600_000; // a clock that is set back by less than this hides nothing from `since` and `until`

export type SearchPage = { page: Position[]; isOver: boolean };

/**
 * The traces of a page. If the time `until` passes first, the page is short, and `isOver` is false. A page has at least
 * one trace unless the search is over: callers go on from the last trace of a page.
 */
export async function search(
  db: Db,
  workspaceId: string,
  { q = "", ...filter }: TraceFilter,
  slice: Slice,
  until = Number.POSITIVE_INFINITY,
): Promise<SearchPage> {
  const query = parseQuery(q);
  const page: Position[] = [];
  if (query === undefined) return { page, isOver: true };
  const given = conditions(db, workspaceId, filter);
  let turn = performance.now() + TURN_MS;
  for (const seqs of batches(db, workspaceId, filter, query, given, slice)) {
    const limit = slice.limit - page.length;
    page.push(...positionsAmong(db, workspaceId, filter, given, seqs, { ...slice, limit }));
    if (page.length >= slice.limit) break;
    const now = performance.now();
    if (page.length > 0 && now > until) return { page, isOver: false };
    if (now < turn) continue;
    await new Promise(setImmediate);
    turn = performance.now() + TURN_MS;
  }
  return { page, isOver: true };
}

/** Matches in the order of the page, of which some may not pass the filters. A batch may be empty. */
function* batches(
  db: Db,
  workspaceId: string,
  filter: TraceFilter,
  query: TextQuery,
  given: readonly Condition[],
  { order, after }: Slice,
): Generator<number[]> {
  const bounds = boundsOf(db, workspaceId, filter, { order, after });
  if (query.hasPrefix) return yield* withPrefix(db, query, bounds, order);
  const few = fewOf(db, workspaceId, given);
  const isWanted = (seq: number) => seq >= bounds.first && seq <= bounds.last && (few?.has(seq) ?? true);
  const blocks = blocksOf(few ? [...few].filter(isWanted) : undefined, bounds);
  for (const block of order === "newest" ? blocks.reverse() : blocks) {
    const seqs = matchesIn(db, workspaceId, query, block).filter(isWanted);
    seqs.sort((a, b) => (order === "newest" ? b - a : a - b));
    for (let i = 0; i === 0 || i < seqs.length; i += CHUNK) yield seqs.slice(i, i + CHUNK);
  }
}

function* withPrefix(db: Db, query: TextQuery, bounds: Bounds, order: Slice["order"]): Generator<number[]> {
  for (let rest = bounds; rest.first <= rest.last; ) {
    const seqs = matchesBetween(db, query, rest, order, BATCH);
    yield seqs;
    const end = seqs.at(-1);
    if (end === undefined || seqs.length < BATCH) return;
    rest = order === "newest" ? { ...rest, last: end - 1 } : { ...rest, first: end + 1 };
  }
}

function boundsOf(
  db: Db,
  workspaceId: string,
  { since, until }: TraceFilter,
  { order, after }: Pick<Slice, "order" | "after">,
): Bounds {
  const one = (query: ReturnType<typeof sql>) => db.all<{ seq: number | null }>(query)[0]?.seq ?? undefined;
  const own = sql`SELECT seq FROM ${traces} INDEXED BY traces_newest WHERE workspace_id = ${workspaceId}`;
  const from = (since === undefined ? 0 : Date.parse(since)) - CLOCK_SLACK_MS;
  const to = (until === undefined ? 0 : Date.parse(until)) + CLOCK_SLACK_MS;
  const first =
    since === undefined
      ? one(sql`SELECT min(seq) AS seq FROM ${traces}`)
      : one(sql`${own} AND created_at >= ${from} ORDER BY created_at, seq LIMIT 1`);
  const last =
    until === undefined
      ? one(sql`SELECT max(seq) AS seq FROM ${traces}`)
      : one(sql`${own} AND created_at < ${to} ORDER BY created_at DESC, seq DESC LIMIT 1`);
  if (first === undefined || last === undefined) return { first: 0, last: -1 };
  if (after === undefined) return { first, last };
  return order === "newest"
    ? { first, last: Math.min(last, after.seq - 1) }
    : { first: Math.max(first, after.seq + 1), last };
}

/** The traces of the filter that chooses the index, if they are few. */
function fewOf(db: Db, workspaceId: string, given: readonly Condition[]): ReadonlySet<number> | undefined {
  const chooser = given.find(({ mayChoose, index }) => mayChoose && index !== "");
  if (!chooser) return undefined;
  const { index, chooses } = chooser;
  const seqs = db.all<{ seq: number }>(
    sql`SELECT seq FROM ${traces} INDEXED BY ${sql.raw(index)} WHERE workspace_id = ${workspaceId} AND ${chooses} LIMIT ${FEW + 1}`,
  );
  return seqs.length > FEW ? undefined : new Set(seqs.map(({ seq }) => seq));
}

/** Ascending: the blocks of these traces, or all blocks within bounds. */
function blocksOf(some: readonly number[] | undefined, { first, last }: Bounds): number[] {
  if (some) return [...new Set(some.map(blockOf))].sort((a, b) => a - b);
  const lowest = blockOf(first);
  return last < first ? [] : Array.from({ length: blockOf(last) - lowest + 1 }, (_, i) => lowest + i);
}
