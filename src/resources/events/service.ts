import { and, asc, count, desc, eq, gt, lte, max, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { EVENT_TYPES } from "../../events/catalog.ts";
import { type EventRow, events } from "../../events/table.ts";
import { AppError } from "../../lib/errors.ts";
import { takingTurns } from "../../lib/turns.ts";
import { durable, prepared } from "../../platform/db/db.ts";
import { hubFor } from "./hub.ts";

const PAGE = 100;
const STRETCH = 1_000; // events that a reader of some types passes by in one go: less than a millisecond

const LATEST = "latest";
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

/** The position behind an event id, or behind all there are. Ids of other workspaces are as unknown as invented ones. */
export function seqOf(ctx: Ctx, workspaceId: string, id: string | undefined): number {
  if (id === undefined) return 0;
  if (id === LATEST) return newest(ctx.db).get({ workspaceId })?.seq ?? 0;
  const row = ctx.db
    .select({ seq: events.seq })
    .from(events)
    .where(and(eq(events.id, id), eq(events.workspaceId, workspaceId)))
    .get();
  if (!row)
    throw new AppError("invalid_cursor", `after: no event ${id.slice(0, 80)} in this feed, or it is past retention`, {
      param: "after",
    });
  return row.seq;
}

/** The id of the event that is in this place: a reader comes back with it. */
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
      `types: no event type ${JSON.stringify(unknown.slice(0, 80))}; there are ${EVENT_TYPES.join(", ")}`,
      {
        param: "types",
      },
    );
  return types;
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
const ofTypes = prepared((db) =>
  db
    .select()
    .from(events)
    .where(
      and(
        ofWorkspace,
        behind,
        lte(events.seq, sql.placeholder("upTo")),
        sql`${events.type} IN (SELECT value FROM json_each(${sql.placeholder("types")}))`,
      ),
    )
    .orderBy(asc(events.seq))
    .limit(sql.placeholder("limit"))
    .prepare(),
);
/** The end of the next stretch of the feed, from its index alone. */
const stretch = prepared((db) => {
  const next = db
    .select({ seq: events.seq })
    .from(events)
    .where(and(ofWorkspace, behind))
    .orderBy(asc(events.seq))
    .limit(sql.placeholder("limit"))
    .as("next");
  return db
    .select({ upTo: max(next.seq), rows: count() })
    .from(next)
    .prepare();
});

type Page = {
  rows: EventRow[];
  /** The place behind everything that was looked at, whether it is among the rows or was passed by. */
  upTo: number;
  /** Of the events that were looked at behind the last of `rows`. */
  passed: number;
};

/** The next events, oldest first, unlike the lists: a feed is read forward. Looks at STRETCH events at most. */
export function readPage(ctx: Ctx, { workspaceId, afterSeq: after, types, limit }: Feed): Page {
  if (types === undefined) {
    const rows = ofAnyType(ctx.db).all({ workspaceId, after, limit });
    return { rows, upTo: rows.at(-1)?.seq ?? after, passed: 0 };
  }
  const next = stretch(ctx.db).get({ workspaceId, after, limit: STRETCH });
  if (!next || next.upTo === null) return { rows: [], upTo: after, passed: 0 };
  const { upTo } = next;
  const rows = ofTypes(ctx.db).all({ workspaceId, after, upTo, limit, types: JSON.stringify(types) });
  if (rows.length === limit) return { rows, upTo: rows.at(-1)?.seq ?? upTo, passed: 0 };
  return { rows, upTo, passed: next.rows - rows.length };
}

/** Up to `limit` events, however many others lie between them; others get their turn in between. */
export async function read(ctx: Ctx, feed: Feed): Promise<EventRow[]> {
  const found: EventRow[] = [];
  const turn = takingTurns();
  for (let { afterSeq } = feed; ; ) {
    const { rows, upTo } = readPage(ctx, { ...feed, afterSeq, limit: feed.limit - found.length });
    found.push(...rows);
    if (found.length === feed.limit || upTo === afterSeq || feed.types === undefined) return found;
    afterSeq = upTo;
    await turn();
  }
}

/** One event, or the place up to which there is none for this reader: it comes back there. */
export type Step = { row: EventRow } | { id: string };

/**
 * Every event from `afterSeq` on, once it is on the disk, until the signal aborts. Holds no more than one page. The place
 * moves past what `types` leaves out, so that no event is looked at twice.
 */
export async function* follow(ctx: Ctx, feed: Omit<Feed, "limit">, signal: AbortSignal): AsyncGenerator<Step> {
  const { workspaceId, types } = feed;
  let { afterSeq } = feed;
  let passed = 0; // events since the reader last heard of its place
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
      if (!kept) await durable(ctx.db); // we see the open commit too; were it lost, the next event would get the same place
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
