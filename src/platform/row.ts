import type { SQLQueryBindings } from "bun:sqlite";
import { Column, getTableColumns, is, Placeholder, type SQL } from "drizzle-orm";
import type { SQLiteTable } from "drizzle-orm/sqlite-core";
import { type Db, prepared } from "./db.ts";

type Values = Record<string, SQLQueryBindings>;

/**
 * One row by a fixed condition, for the paths every request takes: drizzle writes the SQL once, then the
 * statement is run and the row put together without its builder (2 µs less a call, measured; docs/adr/0006).
 * `const byId = preparedRow(jobs, eq(jobs.id, sql.placeholder("id")))`, then `byId(db, { id })`.
 */
export function preparedRow<T extends SQLiteTable>(table: T, where: SQL | undefined) {
  const columns = Object.entries(getTableColumns(table)).map(([key, column]) => ({
    key,
    decode: column.mapFromDriverValue === Column.prototype.mapFromDriverValue ? undefined : column,
  }));
  const statementOf = prepared((db: Db) => {
    const { sql, params } = db
      .select()
      .from(table as SQLiteTable)
      .where(where)
      .toSQL();
    return { statement: db.$client.prepare<unknown, SQLQueryBindings[]>(sql), params };
  });
  return (db: Db, values: Values): T["$inferSelect"] | undefined => {
    const { statement, params } = statementOf(db);
    const bound = params.map((param) => (is(param, Placeholder) ? values[param.name] : param)) as SQLQueryBindings[];
    const found = statement.values(...bound)[0];
    if (!found) return undefined;
    const row: Record<string, unknown> = {};
    for (let i = 0; i < columns.length; i++) {
      const { key, decode } = columns[i] as (typeof columns)[number];
      const value = found[i];
      row[key] = decode && value !== null ? decode.mapFromDriverValue(value) : value;
    }
    return row as T["$inferSelect"];
  };
}
