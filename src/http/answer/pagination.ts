import { and, desc, eq, lt, or, type SQL } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { z } from "zod";
import { AppError } from "../../lib/errors.ts";
import { later } from "../../lib/schema.ts";
import type { Db } from "../../platform/db/db.ts";

export const PageQuery = z.object({
  limit: z.coerce.number().int().min(1).max(100).default(20).describe("How many items at most"),
  after: z.string().optional().describe("Id of the last item of the previous page"),
});
export type PageQuery = z.infer<typeof PageQuery>;

/** `{object: 'list', data, has_more}` of a named item schema. */
export const listOf = <T extends z.ZodType>(item: T, id: string) =>
  later(() => z.object({ object: z.literal("list"), data: z.array(item), has_more: z.boolean() }).meta({ id }));

type Pageable = SQLiteTable & { id: SQLiteColumn; createdAt: SQLiteColumn };

/**
 * One page, newest first by (created_at, id). `within` must scope the query to the caller's workspace: the
 * cursor is looked up under it too, so a foreign id is as unknown as an invented one.
 */
export function page<T extends Pageable, P>(
  db: Db,
  table: T,
  within: SQL | undefined,
  { limit, after }: PageQuery,
  present: (row: T["$inferSelect"]) => P,
): { object: "list"; data: P[]; has_more: boolean } {
  const rows = db
    .select()
    .from(table as SQLiteTable)
    .where(and(within, after === undefined ? undefined : olderThan(db, table, within, after)))
    .orderBy(desc(table.createdAt), desc(table.id))
    .limit(limit + 1)
    .all() as T["$inferSelect"][];
  return { object: "list", data: rows.slice(0, limit).map(present), has_more: rows.length > limit };
}

function olderThan(db: Db, table: Pageable, within: SQL | undefined, after: string) {
  const cursor = db
    .select({ createdAt: table.createdAt })
    .from(table as SQLiteTable)
    .where(and(within, eq(table.id, after)))
    .get() as { createdAt: number } | undefined;
  if (!cursor)
    throw new AppError("invalid_cursor", `after: no item ${after.slice(0, 80)} in this list`, { param: "after" });
  return or(lt(table.createdAt, cursor.createdAt), and(eq(table.createdAt, cursor.createdAt), lt(table.id, after)));
}
