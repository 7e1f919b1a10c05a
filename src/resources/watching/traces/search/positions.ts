/**
 * Places in the list of traces. A list goes by `created_at`, then by `seq`; a search by `seq`. Both are the order in
 * which traces were recorded: `created_at` is the server's time at that moment, also for spans that began long before.
 */
import { desc, getTableColumns, inArray, lte } from "drizzle-orm";
import { requireId } from "../../../../http/answer/cursor.ts";
import { timeOf } from "../../../../lib/ids.ts";
import type { Db } from "../../../../platform/db/db.ts";
import type { SummaryRow } from "../schema.ts";
import { type TraceRow, traces } from "../table.ts";

export type Position = { createdAt: number; seq: number };
export type Slice = { order: "newest" | "oldest"; after: Position | undefined; limit: number };

const CURSOR = /^at-([0-9a-z]{1,9})-([0-9a-z]{1,9})$/;

/** A place without a trace of its own: the page before it may be empty. */
export const cursorOf = ({ createdAt, seq }: Position) => `at-${createdAt.toString(36)}-${seq.toString(36)}`;

/**
 * The place of a cursor or of an id. An id is a position whether or not its trace still exists: if not, the place is
 * before the trace with the id before.
 */
export function positionOf(db: Db, after: string): Position {
  const [, time, place] = CURSOR.exec(after) ?? [];
  if (time !== undefined && place !== undefined)
    return { createdAt: Number.parseInt(time, 36), seq: Number.parseInt(place, 36) };
  requireId(traces, after);
  const { id, createdAt, seq } = traces;
  const nearest = db.select({ id, createdAt, seq }).from(traces).where(lte(id, after)).orderBy(desc(id)).limit(1).get();
  if (!nearest) return { createdAt: timeOf(after), seq: 0 };
  return { createdAt: nearest.createdAt, seq: nearest.id === after ? nearest.seq : nearest.seq + 1 };
}

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
