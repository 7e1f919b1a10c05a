import { and, asc, desc, eq, gt, lt, lte, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { EVENT_TYPES } from "../../../events/catalog.ts";
import { type EventRow, events } from "../../../events/table.ts";
import { requireId } from "../../../http/answer/cursor.ts";
import { AppError } from "../../../lib/errors.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { durable, prepared } from "../../../platform/db/db.ts";
import { hubFor } from "./hub.ts";

const PAGE = 100;
const STRETCH = 1_000; // a reader gets its position after this many events that are not for it

export const LATEST = "latest";
const newest = prepared((db) =>
  db
    .select({ seq: events.seq })
    .from(events)
    .where(eq(events.workspaceId, sql.placeholder("workspaceId")))
    .orderBy(desc(events.seq))
    .limit(1)
    .prepare(),
);

type Feed = { workspaceId: string; afterSeq: number; types: readonly string[] | undefined; limit: number };

const upToId = prepared((db) =>
  db
    .select({ seq: events.seq })
    .from(events)
    .where(lte(events.id, sql.placeholder("id")))
    .orderBy(desc(events.id))
    .limit(1)
    .prepare(),
);

/** The `seq` of an event id, or of the newest event. An id that the feed does not have is a position by its time. */
export function seqOf(ctx: Ctx, workspaceId: string, id: string | undefined): number {
  if (id === undefined) return 0;
  if (id === LATEST) return newest(ctx.db).get({ workspaceId })?.seq ?? 0;
  requireId(events, id);
  return upToId(ctx.db).get({ id })?.seq ?? 0; // of any workspace: `seq` is one order for all
}

/** The id of the event with this `seq`, which a reader sends to continue there. */
export const idAt = (ctx: Ctx, workspaceId: string, seq: number): string | undefined =>
  ctx.db
    .select({ id: events.id })
    .from(events)
    .where(and(eq(events.seq, seq), eq(events.workspaceId, workspaceId)))
    .get()?.id;

export function typesOf(list: string | undefined): string[] | undefined {
  if (list === undefined || list === "") return undefined;
  const types = list.split(",").map((type) => type.trim());
  const unknown = types.find((type) => !(EVENT_TYPES as string[]).includes(type));
  if (unknown !== undefined)
    throw new AppError(
      "schema",
      `types: there is no event type ${JSON.stringify(unknown.slice(0, 80))}. Choose among ${EVENT_TYPES.join(", ")}`,
      {
        param: "types",
      },
    );
  return [...new Set(types)];
}

const ofWorkspace = eq(events.workspaceId, sql.placeholder("workspaceId"));
const behind = gt(events.seq, sql.placeholder("after"));

const ofAnyType = prepared((db) =>
  db
    .select()
    .from(events)
    .where(and(ofWorkspace, behind))
    .orderBy(asc(events.seq))
    .limit(sql.placeholder("limit"))
    .prepare(),
);
/** Read from the index `events_by_type` alone. */
const seqsOfType = prepared((db) =>
  db
    .select({ seq: events.seq })
    .from(events)
    .where(and(ofWorkspace, eq(events.type, sql.placeholder("type")), behind, lte(events.seq, sql.placeholder("upTo"))))
    .orderBy(asc(events.seq))
    .limit(sql.placeholder("limit"))
    .prepare(),
);
const bySeq = prepared((db) =>
  db
    .select()
    .from(events)
    .where(sql`${events.seq} IN (SELECT value FROM json_each(${sql.placeholder("seqs")}))`)
    .orderBy(asc(events.seq))
    .prepare(),
);

const before = lt(events.seq, sql.placeholder("before"));
const backOfAnyType = prepared((db) =>
  db
    .select()
    .from(events)
    .where(and(ofWorkspace, before))
    .orderBy(desc(events.seq))
    .limit(sql.placeholder("limit"))
    .prepare(),
);
/** Read from the index `events_by_type` alone. */
const backOfType = prepared((db) =>
  db
    .select({ seq: events.seq })
    .from(events)
    .where(and(ofWorkspace, eq(events.type, sql.placeholder("type")), before))
    .orderBy(desc(events.seq))
    .limit(sql.placeholder("limit"))
    .prepare(),
);

type Back = Omit<Feed, "afterSeq"> & { beforeSeq: number };

/** The events before a place, newest first. */
export function readBack(ctx: Ctx, { workspaceId, beforeSeq: before, types, limit }: Back): EventRow[] {
  if (types === undefined) return backOfAnyType(ctx.db).all({ workspaceId, before, limit });
  const seqs = types.flatMap((type) => backOfType(ctx.db).all({ workspaceId, type, before, limit }));
  const newestSeqs = seqs.map(({ seq }) => seq).sort((a, b) => b - a);
  return bySeq(ctx.db)
    .all({ seqs: JSON.stringify(newestSeqs.slice(0, limit)) })
    .reverse();
}

type Page = {
  rows: EventRow[];
  /** The `seq` of the last event that was examined, whether it is among the rows or was skipped. */
  upTo: number;
  /** The number of events after the last of `rows` that were skipped, those of other workspaces included. */
  passed: number;
};

/** The next events, oldest first: unlike a list, a feed is read forward. */
export function readPage(ctx: Ctx, { workspaceId, afterSeq: after, types, limit }: Feed): Page {
  if (types === undefined) {
    const rows = ofAnyType(ctx.db).all({ workspaceId, after, limit });
    return { rows, upTo: rows.at(-1)?.seq ?? after, passed: 0 };
  }
  const upTo = newest(ctx.db).get({ workspaceId })?.seq ?? after;
  const all = types.flatMap((type) => seqsOfType(ctx.db).all({ workspaceId, type, after, upTo, limit }));
  const seqs = all.map(({ seq }) => seq).sort((a, b) => a - b);
  const rows = seqs.length === 0 ? [] : bySeq(ctx.db).all({ seqs: JSON.stringify(seqs.slice(0, limit)) });
  const last = rows.at(-1)?.seq ?? after;
  if (rows.length === limit) return { rows, upTo: last, passed: 0 };
  return { rows, upTo: Math.max(upTo, after), passed: Math.max(0, upTo - last) };
}

/** One event, or the id up to which no event passes the filter. A reader continues there. */
export type Step = { row: EventRow } | { id: string };

/**
 * Every event after `afterSeq`, once it is on the disk, until the signal aborts. Holds one page at most. The position
 * moves past events that `types` leaves out, so no event is examined twice.
 */
export async function* follow(ctx: Ctx, feed: Omit<Feed, "limit">, signal: AbortSignal): AsyncGenerator<Step> {
  const { workspaceId, types } = feed;
  let { afterSeq } = feed;
  let passed = 0; // events since the reader last got its position
  const turn = takingTurns();
  const hub = hubFor(ctx, workspaceId, {
    newestSeq: () => newest(ctx.db).get({ workspaceId })?.seq ?? 0,
    after: (after) => ofAnyType(ctx.db).all({ workspaceId, after, limit: PAGE }),
  });
  try {
    await hub.join();
    while (!signal.aborted) {
      const kept = hub.rowsAfter(afterSeq);
      const page = kept ? pageOf(kept, afterSeq, types) : readPage(ctx, { ...feed, afterSeq, limit: PAGE });
      if (!kept) await durable(ctx.db); // the query sees the open commit too; if it were lost, the next event would get the same `seq`
      for (const row of page.rows) {
        if (signal.aborted) return;
        yield { row };
        passed = 0;
      }
      afterSeq = page.upTo;
      passed += page.passed;
      if (passed >= STRETCH) {
        const id = idAt(ctx, workspaceId, afterSeq);
        if (id !== undefined) yield { id };
        passed = 0;
      }
      if (hub.rowsAfter(afterSeq)) await hub.changed(afterSeq, signal);
      else await turn();
    }
  } finally {
    hub.leave();
  }
}

function pageOf(rows: readonly EventRow[], afterSeq: number, types: readonly string[] | undefined): Page {
  const wanted = types === undefined ? rows : rows.filter(({ type }) => types.includes(type));
  const last = wanted.at(-1)?.seq ?? afterSeq;
  const upTo = rows.at(-1)?.seq ?? afterSeq;
  return { rows: [...wanted], upTo, passed: rows.filter(({ seq }) => seq > last).length };
}
