import { and, desc, type SQL } from "drizzle-orm";
import type { SQLiteTable } from "drizzle-orm/sqlite-core";
import { z } from "zod";
import { later, numberText } from "../../lib/schema.ts";
import type { Db } from "../../platform/db/db.ts";
import { behind, type Pageable } from "./cursor.ts";

export const PageQuery = z.object({
  limit: numberText(z.int().min(1).max(100)).default(20).describe("How many items at most"),
  after: z.string().optional().describe("Id of the last item of the previous page"),
});
export type PageQuery = z.infer<typeof PageQuery>;

/** `{object: 'list', data, has_more}` of a named item schema. */
export const listOf = <T extends z.ZodType>(item: T, id: string) =>
  later(() => z.object({ object: z.literal("list"), data: z.array(item), has_more: z.boolean() }).meta({ id }));

/** One page, newest first by (created_at, id). `within` scopes the query to the caller's workspace and filters it. */
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
    .where(and(within, after === undefined ? undefined : behind(db, table, after)))
    .orderBy(desc(table.createdAt), desc(table.id))
    .limit(limit + 1)
    .all() as T["$inferSelect"][];
  return { object: "list", data: rows.slice(0, limit).map(present), has_more: rows.length > limit };
}
