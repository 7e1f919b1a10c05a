import type { SQLQueryBindings } from "bun:sqlite";
import { Column, getTableColumns, getTableName, is, Placeholder, type SQL } from "drizzle-orm";
import type { SQLiteTable } from "drizzle-orm/sqlite-core";
import { type Db, prepared, type Tx } from "./db.ts";

type Values = Record<string, SQLQueryBindings>;

/**
 * One row by a fixed condition, for the paths every request takes: drizzle writes the SQL once, then the
 * statement is run and the row put together without its builder (docs/adr/0006 has the figures).
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

/**
 * Inserts whole rows: every column is given, so the row that went in is the row that comes out, and no builder
 * runs. `const insert = preparedInsert(jobs)`, then `insert(tx, row)`. A key that the database counts up itself
 * (`seq`) is left out by name.
 */
export function preparedInsert<T extends SQLiteTable, K extends keyof T["$inferSelect"] & string = never>(
  table: T,
  ...counted: K[]
) {
  const columns = Object.entries(getTableColumns(table)).filter(([key]) => !(counted as string[]).includes(key));
  const names = columns.map(([, column]) => `"${column.name}"`);
  const sql = `INSERT INTO "${getTableName(table)}" (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`;
  const statementOf = prepared((db: Db) => db.$client.prepare<unknown, SQLQueryBindings[]>(sql));
  return (tx: Tx, row: Omit<T["$inferSelect"], K>): Omit<T["$inferSelect"], K> => {
    const given = row as Record<string, unknown>;
    const bound = columns.map(([key, column]) => {
      const value = given[key];
      return value === null ? null : column.mapToDriverValue(value);
    });
    statementOf(tx).run(...(bound as SQLQueryBindings[]));
    return row;
  };
}
