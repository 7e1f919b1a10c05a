/**
 * A search in captured content. The order is that of `seq`, in which traces were recorded. A search reads one window of
 * traces after the other.
 */
import { sql } from "drizzle-orm";
import type { Db } from "../../../../platform/db/db.ts";
import type { TraceFilter } from "../schema.ts";
import { traces } from "../table.ts";
import { type Condition, conditions } from "./conditions.ts";
import { type Position, rowsAt, type Slice } from "./positions.ts";
import { expand, matchesAmong, type Prefix } from "./prefixes.ts";
import { nextSize, type Step } from "./slices.ts";
import { type Bounds, matchesIn, parseQuery, sizeOf, type TextQuery, textOf, WINDOW_SIZES, windowAt } from "./text.ts";
import { positionsAmong } from "./walk.ts";

const CHUNK = 500; // matches that are looked up at a time
const TEXTS = { least: 5, most: 200 }; // texts that are read at a time
const WITH_WORDS = 1_024; // traces: in a smaller window, the words of a prefix would cost more than the traces
const FEW = 5_000; // traces under the other filters whose windows alone are searched
const CLOCK_SLACK_MS = 600_000; // a clock that is set back by less than this hides nothing from `since` and `until`

/** `broad`: prefixes of too many words. */
type Terms = { phrases: string[]; prefixes: Prefix[]; broad: string[] };

/** The traces that match, and pass the other filters. */
export function* search(
  db: Db,
  workspaceId: string,
  { q = "", ...filter }: TraceFilter,
  slice: Slice,
): Generator<Step> {
  const query = parseQuery(q);
  const terms = query && termsOf(db, query);
  if (!terms || terms.prefixes.some(({ words }) => words.length === 0)) return;
  const filters = conditions(db, workspaceId, filter);
  const { order } = slice;
  const isNewest = order === "newest";
  const few = fewOf(db, workspaceId, filters)?.sort((a, b) => (isNewest ? a - b : b - a));
  const isFew = few && new Set(few);
  const sizes = terms.prefixes.length > 0 ? { ...WINDOW_SIZES, least: WITH_WORDS } : WINDOW_SIZES;
  const check = checkerOf(db, terms.broad);
  let size = sizes.least;
  for (let rest = boundsOf(db, workspaceId, filter, slice); rest.first <= rest.last; ) {
    const start = few ? nextOf(few, rest) : isNewest ? rest.last : rest.first;
    if (start === undefined) return;
    const window = windowAt(workspaceId, start, size);
    const begun = performance.now();
    const seqs = matchesIn(db, window, terms.phrases, terms.prefixes).filter(
      (seq) => seq >= rest.first && seq <= rest.last && (isFew?.has(seq) ?? true),
    );
    seqs.sort((a, b) => (isNewest ? b - a : a - b));
    size = nextSize(sizeOf(window), performance.now() - begun, sizes);
    for (let i = 0; i < seqs.length; i += CHUNK) {
      const some = seqs.slice(i, i + CHUNK);
      yield* check(positionsAmong(db, workspaceId, filter, filters, some, { ...slice, limit: CHUNK }));
      yield { found: [], reached: placeAt(some.at(-1) ?? start) };
    }
    rest = isNewest ? { ...rest, last: window.first - 1 } : { ...rest, first: window.last + 1 };
    yield { found: [], reached: rest.first > rest.last ? undefined : placeAt(isNewest ? window.first : window.last) };
  }
}

/** A search needs only the number of a place. */
const placeAt = (seq: number): Position => ({ createdAt: 0, seq });

function termsOf(db: Db, { phrases, prefixes }: TextQuery): Terms {
  const terms: Terms = { phrases, prefixes: [], broad: [] };
  for (const each of prefixes) {
    const expansion = expand(db, each);
    if (expansion) terms.prefixes.push(expansion);
    else terms.broad.push(each);
  }
  return terms;
}

/** Reads the texts of traces, if there are broad prefixes, and leaves out those without a match. */
function checkerOf(db: Db, broad: readonly string[]) {
  let size = TEXTS.least;
  return function* (some: readonly Position[]): Generator<Step> {
    if (broad.length === 0 && some.length > 0) yield { found: some, reached: some.at(-1) };
    if (broad.length === 0) return;
    for (let i = 0; i < some.length; ) {
      const begun = performance.now();
      const part = some.slice(i, i + size);
      const matches = matchesAmong(db, new Map(rowsAt(db, part).map((row) => [row.seq, textOf(row)])), broad);
      i += part.length;
      size = nextSize(size, performance.now() - begun, TEXTS);
      yield { found: part.filter(({ seq }) => matches.has(seq)), reached: part.at(-1) };
    }
  };
}

/** The first of these traces within the bounds. Those before it are dropped: the next one is at the end. */
function nextOf(few: number[], { first, last }: Bounds): number | undefined {
  for (let next = few.at(-1); next !== undefined; next = few.at(-1)) {
    if (next >= first && next <= last) return next;
    few.pop();
  }
  return undefined;
}
function boundsOf(
  db: Db,
  workspaceId: string,
  { since, until }: TraceFilter,
  { order, after }: Pick<Slice, "order" | "after">,
): Bounds {
  const one = (query: ReturnType<typeof sql>) => db.all<{ seq: number | null }>(query)[0]?.seq ?? undefined;
  const seqsOfWorkspace = sql`SELECT seq FROM ${traces} INDEXED BY traces_newest WHERE workspace_id = ${workspaceId}`;
  const from = (since === undefined ? 0 : Date.parse(since)) - CLOCK_SLACK_MS;
  const to = (until === undefined ? 0 : Date.parse(until)) + CLOCK_SLACK_MS;
  const first =
    since === undefined
      ? one(sql`SELECT min(seq) AS seq FROM ${traces}`)
      : one(sql`${seqsOfWorkspace} AND created_at >= ${from} ORDER BY created_at, seq LIMIT 1`);
  const last =
    until === undefined
      ? one(sql`SELECT max(seq) AS seq FROM ${traces}`)
      : one(sql`${seqsOfWorkspace} AND created_at < ${to} ORDER BY created_at DESC, seq DESC LIMIT 1`);
  if (first === undefined || last === undefined) return { first: 0, last: -1 };
  if (after === undefined) return { first, last };
  return order === "newest"
    ? { first, last: Math.min(last, after.seq - 1) }
    : { first: Math.max(first, after.seq + 1), last };
}

/** The traces of the filter that chooses the index, if they are few. */
function fewOf(db: Db, workspaceId: string, filters: readonly Condition[]): number[] | undefined {
  const chooser = filters.find(({ mayChoose, index }) => mayChoose && index !== "");
  if (!chooser) return undefined;
  const { index, chooses } = chooser;
  const seqs = db.all<{ seq: number }>(
    sql`SELECT seq FROM ${traces} INDEXED BY ${sql.raw(index)} WHERE workspace_id = ${workspaceId} AND ${chooses} LIMIT ${FEW + 1}`,
  );
  return seqs.length > FEW ? undefined : seqs.map(({ seq }) => seq);
}
