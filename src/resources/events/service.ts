import { and, asc, desc, eq, gt, type SQL, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { EVENT_TYPES } from "../../events/catalog.ts";
import { onEvents } from "../../events/emit.ts";
import { type EventRow, events } from "../../events/table.ts";
import { AppError } from "../../lib/errors.ts";
import { durable, prepared } from "../../platform/db.ts";

/** Another process (the command line) may write events too; it cannot ring our bell, so we look this often. */
const LOOK_MS = 1_000;
const PAGE = 100;

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

const forward = (types?: SQL) =>
  prepared((db) =>
    db
      .select()
      .from(events)
      .where(
        and(eq(events.workspaceId, sql.placeholder("workspaceId")), gt(events.seq, sql.placeholder("after")), types),
      )
      .orderBy(asc(events.seq))
      .limit(sql.placeholder("limit"))
      .prepare(),
  );
const ofAnyType = forward();
const ofTypes = forward(sql`${events.type} IN (SELECT value FROM json_each(${sql.placeholder("types")}))`);

/** Oldest first, unlike the lists: a feed is read forward. */
export const read = (ctx: Ctx, { workspaceId, afterSeq: after, types, limit }: Feed): EventRow[] =>
  types === undefined
    ? ofAnyType(ctx.db).all({ workspaceId, after, limit })
    : ofTypes(ctx.db).all({ workspaceId, after, limit, types: JSON.stringify(types) });

/** Every event from `afterSeq` on, once it is on the disk, until the signal aborts. Holds no more than one page. */
export async function* follow(ctx: Ctx, feed: Omit<Feed, "limit">, signal: AbortSignal): AsyncGenerator<EventRow> {
  let { afterSeq } = feed;
  while (!signal.aborted) {
    const bell = Promise.withResolvers<void>();
    const silence = onEvents(ctx.db, bell.resolve); // before the read, or an event between the two would be missed
    try {
      const rows = read(ctx, { ...feed, afterSeq, limit: PAGE });
      await durable(ctx.db); // we see the open commit too; were it lost, the next event would get the same place
      for (const row of rows) {
        if (signal.aborted) return;
        yield row;
        afterSeq = row.seq;
      }
      if (rows.length === PAGE) continue;
      const look = new AbortController();
      await Promise.race([bell.promise, ctx.clock.sleep(LOOK_MS, AbortSignal.any([signal, look.signal]))]);
      look.abort();
    } finally {
      silence();
    }
  }
}
