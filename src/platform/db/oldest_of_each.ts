import { and, asc, isNotNull, type SQL, sql } from "drizzle-orm";
import type { AnySQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { prepared } from "./db.ts";

type Queue = SQLiteTable & Record<"id" | "workspaceId" | "createdAt", AnySQLiteColumn>;
type OldestRows<T extends Queue> = {
  all: (limit: { most: number }) => (T["$inferSelect"] & { workspaceId: string })[];
};

/**
 * The `most` oldest rows of each workspace that are due, oldest first. For a queue that is rows of a table: the oldest
 * of all workspaces together may all belong to one.
 */
export const oldestOfEach = <T extends Queue>(table: T, ...due: SQL[]) =>
  prepared((db): OldestRows<T> => {
    const { id, workspaceId, createdAt } = table;
    const ranked = sql`SELECT ${id} AS id,
      row_number() OVER (PARTITION BY ${workspaceId} ORDER BY ${createdAt}, ${id}) AS rank
      FROM ${table} WHERE ${and(isNotNull(workspaceId), ...due)}`;
    return db
      .select()
      .from(table as SQLiteTable)
      .where(sql`${id} IN (SELECT id FROM (${ranked}) WHERE rank <= ${sql.placeholder("most")})`)
      .orderBy(asc(createdAt), asc(id))
      .prepare() as unknown as OldestRows<T>;
  });
