/** Walks the list along one index, slice by slice, and checks the other filters on the rows of a slice. */
import { and, gte, lt, type SQL, sql } from "drizzle-orm";
import type { Db } from "../../../../platform/db/db.ts";
import type { TraceFilter } from "../schema.ts";
import { traceScores, traces } from "../table.ts";
import { type Condition, conditions, hidden } from "./conditions.ts";
import type { Position, Slice } from "./positions.ts";
import { nextSize, type Sizes, type Step } from "./slices.ts";

const SIZES: Sizes = { least: 250, most: 16_000 }; // rows of an index
const FIRST_SIZE = 1_000;

type Path = {
  from: SQL;
  place: SQL;
  createdAt: SQL;
  seq: SQL;
  /** Rows that the index has in the order of the list. */
  within: SQL | undefined;
  /** Conditions of the rows that are left to check. */
  checks: SQL | undefined;
  group: SQL;
};

/** The traces that pass the filters. Each step reads a bounded number of rows, unless the filter has few rows at all. */
export function* walk(db: Db, workspaceId: string, filter: TraceFilter, slice: Slice): Generator<Step> {
  const { path, isBounded } = pathOf(db, workspaceId, filter);
  const { order, limit } = slice;
  let size = FIRST_SIZE;
  for (let { after } = slice; ; ) {
    const begun = performance.now();
    const end = isBounded ? undefined : endOf(db, path, order, after, size);
    const positions = positionsIn(db, path, order, after, end, limit + 1);
    size = nextSize(size, performance.now() - begun, SIZES);
    yield { found: positions, reached: end };
    if (end === undefined) return;
    after = end;
  }
}

function pathOf(db: Db, workspaceId: string, filter: TraceFilter): { path: Path; isBounded: boolean } {
  const filters = conditions(db, workspaceId, filter);
  const chooser = filters.find(({ mayChoose }) => mayChoose);
  const walker = chooser ? undefined : filters.find(({ walks }) => walks);
  const rest = filters.filter((each) => each !== chooser && each !== walker).map(({ checks }) => checks);
  const path = walker?.walks ? alongScores(walker.walks, rest) : alongTraces(workspaceId, chooser, rest);
  const since = filter.since === undefined ? undefined : gte(path.createdAt, Date.parse(filter.since));
  const until = filter.until === undefined ? undefined : lt(path.createdAt, Date.parse(filter.until));
  // Without a check, every row of the index is a row of the page.
  const isBounded = chooser?.isFew === true || (path.checks === undefined && chooser?.isShared !== true);
  return { path: { ...path, within: and(path.within, since, until) }, isBounded };
}

/** A trace may have several scores of the name. */
const alongScores = ({ named, ranged }: NonNullable<Condition["walks"]>, rest: readonly SQL[]): Path => ({
  from: sql`${traceScores} indexed by trace_scores_newest cross join ${traces} not indexed on ${traces.seq} = ${traceScores.traceSeq}`,
  place: sql`${traceScores} indexed by trace_scores_newest`,
  createdAt: sql`${traceScores.traceAt}`,
  seq: sql`${traceScores.traceSeq}`,
  within: named,
  checks: and(ranged, ...rest),
  group: sql`group by ${traceScores.traceAt}, ${traceScores.traceSeq}`,
});

function alongTraces(workspaceId: string, chooser: Condition | undefined, rest: readonly SQL[]): Path {
  const index = chooser?.index ?? "traces_newest";
  const from = sql`${traces} ${sql.raw(index === "" ? "not indexed" : `indexed by ${index}`)}`;
  const within = and(sql`${traces.workspaceId} = ${workspaceId}`, chooser?.chooses);
  const { createdAt, seq } = traces;
  const columns = { createdAt: sql`${createdAt}`, seq: sql`${seq}` };
  return { ...columns, from, place: from, within, checks: and(...rest), group: sql`` };
}

const ordered = ({ createdAt, seq }: Path, order: Slice["order"]) => {
  const direction = order === "newest" ? sql`desc` : sql`asc`;
  return sql`order by ${createdAt} ${direction}, ${seq} ${direction}`;
};

const behind = ({ createdAt, seq }: Path, order: Slice["order"], after: Position | undefined) =>
  after && sql`(${createdAt}, ${seq}) ${order === "newest" ? sql`<` : sql`>`} (${after.createdAt}, ${after.seq})`;

/** The last row of a slice of this size. Undefined: fewer rows are left. */
function endOf(db: Db, path: Path, order: Slice["order"], after: Position | undefined, size: number) {
  const where = and(path.within, behind(path, order, after));
  const columns = sql`${path.createdAt} as "createdAt", ${path.seq} as "seq"`;
  return db.all<Position>(
    sql`select ${columns} from ${path.place} where ${where} ${ordered(path, order)} limit 1 offset ${size - 1}`,
  )[0];
}

/** The builder has no INDEXED BY, so the rows of a page are read in a second query. */
function positionsIn(
  db: Db,
  path: Path,
  order: Slice["order"],
  after: Position | undefined,
  end: Position | undefined,
  limit: number,
): Position[] {
  const { createdAt, seq, group } = path;
  const upTo =
    end && sql`(${createdAt}, ${seq}) ${order === "newest" ? sql`>=` : sql`<=`} (${end.createdAt}, ${end.seq})`;
  const where = and(path.within, path.checks, behind(path, order, after), upTo);
  const columns = sql`${createdAt} as "createdAt", ${seq} as "seq"`;
  return db.all(
    sql`select ${columns} from ${path.from} where ${where} ${group} ${ordered(path, order)} limit ${limit}`,
  );
}

/** Leaves out the traces that do not pass the filters. The order is that of `seq`. */
export function positionsAmong(
  db: Db,
  workspaceId: string,
  { since, until }: TraceFilter,
  filters: readonly Condition[],
  seqs: readonly number[],
  { order, limit }: Slice,
): Position[] {
  const { createdAt, seq } = traces;
  const where = and(
    sql`${hidden(traces.workspaceId)} = ${workspaceId}`,
    sql`${seq} IN (SELECT value FROM json_each(${JSON.stringify(seqs)}))`,
    ...filters.map(({ checks }) => checks),
    since === undefined ? undefined : sql`${hidden(createdAt)} >= ${Date.parse(since)}`,
    until === undefined ? undefined : sql`${hidden(createdAt)} < ${Date.parse(until)}`,
  );
  const byTurn = sql`order by ${seq} ${order === "newest" ? sql`desc` : sql`asc`} limit ${limit}`;
  return db.all(
    sql`select ${createdAt} as "createdAt", ${seq} as "seq" from ${traces} not indexed where ${where} ${byTurn}`,
  );
}
