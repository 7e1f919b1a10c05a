import type { SQLQueryBindings, Statement } from "bun:sqlite";
import { Column, getTableColumns, getTableName, is, Placeholder, SQL } from "drizzle-orm";
import type { SQLiteTable } from "drizzle-orm/sqlite-core";
import { type Db, prepared, type Tx } from "./db.ts";

type Values = Record<string, SQLQueryBindings>;

/**
 * One row by a fixed condition, for the paths every request takes: drizzle writes the SQL once, then the
 * statement is run and the row put together without its builder (docs/adr/0006 has the figures).
 * `const byId = preparedRow(jobs, eq(jobs.id, sql.placeholder("id")))`, then `byId(db, { id })`.
 * `order`: where several rows meet the condition, the first of them is given.
 */
export function preparedRow<T extends SQLiteTable>(table: T, where: SQL | undefined, ...order: SQL[]) {
  const rowOf = decoderOf(table);
  const valuesOf = reading(table, where, order);
  return (db: Db, values: Values): T["$inferSelect"] | undefined => {
    const found = valuesOf(db, values)[0];
    return found && rowOf(found);
  };
}

/** All rows that meet a fixed condition. */
export function preparedRows<T extends SQLiteTable>(table: T, where: SQL | undefined) {
  const rowOf = decoderOf(table);
  const valuesOf = reading(table, where, []);
  return (db: Db, values: Values): T["$inferSelect"][] => valuesOf(db, values).map(rowOf);
}

/** With an order, only the first row is read. */
function reading(table: SQLiteTable, where: SQL | undefined, order: readonly SQL[]) {
  const statementOf = prepared((db: Db) => {
    const query = db
      .select()
      .from(table)
      .where(where)
      .orderBy(...order);
    const { sql, params } = (order.length === 0 ? query : query.limit(1)).toSQL();
    return { statement: db.$client.prepare<unknown, SQLQueryBindings[]>(sql), params };
  });
  return (db: Db, values: Values): unknown[][] => {
    const { statement, params } = statementOf(db);
    const bound = params.map((param) => (is(param, Placeholder) ? values[param.name] : param)) as SQLQueryBindings[];
    return statement.values(...bound);
  };
}

/** The values of all columns, in their order → the row. */
function decoderOf<T extends SQLiteTable>(table: T): (values: readonly unknown[]) => T["$inferSelect"] {
  const columns = Object.entries(getTableColumns(table)).map(([key, column]) => ({
    key,
    decode: column.mapFromDriverValue === Column.prototype.mapFromDriverValue ? undefined : column,
  }));
  return (values) => {
    const row: Record<string, unknown> = {};
    for (let i = 0; i < columns.length; i++) {
      const { key, decode } = columns[i] as (typeof columns)[number];
      const value = values[i];
      row[key] = decode && value !== null ? decode.mapFromDriverValue(value) : value;
    }
    return row as T["$inferSelect"];
  };
}

type Stateful = SQLiteTable & { id: Column; status: Column };
type Change = { id: string; from: readonly string[]; set: Record<string, unknown> };

/**
 * Sets columns of the row `id` while its status is one of `from`, and gives the row as it is then. One statement for
 * each table, set of columns and `from`, so no builder runs. Values only: `isPlain` says whether they are.
 */
export function changeRow<T extends Stateful>(tx: Tx, table: T, change: Change) {
  const { statement, rowOf, bound } = changing(tx, table, change, true);
  const found = statement.values(...bound)[0];
  return found && (rowOf(found) as T["$inferSelect"]);
}

/** Like `changeRow` without the row, and twice as fast. True if the row was in one of the states. */
export function setRow(tx: Tx, table: Stateful, change: Change): boolean {
  const { statement, bound } = changing(tx, table, change, false);
  return statement.run(...bound).changes > 0;
}

function changing(tx: Tx, table: Stateful, { id, from, set }: Change, isRead: boolean) {
  const columns = getTableColumns(table as SQLiteTable);
  const keys = Object.keys(set).filter((key) => set[key] !== undefined);
  const { statement, rowOf } = changesOf(tx).get(table, keys, from, isRead);
  const values = keys.map((key) => (set[key] === null ? null : (columns[key] as Column).mapToDriverValue(set[key])));
  return { statement, rowOf, bound: [...values, id, ...from] as SQLQueryBindings[] };
}

/** No expression among them that the database has to compute. */
export const isPlain = (set: Record<string, unknown>) => !Object.values(set).some((value) => is(value, SQL));

type ChangeStatement = {
  statement: Pick<Statement<unknown, SQLQueryBindings[]>, "values" | "run">;
  rowOf: (values: readonly unknown[]) => unknown;
};

const changesOf = prepared((db: Db) => {
  const made = new Map<string, ChangeStatement>();
  return {
    get(table: SQLiteTable, keys: readonly string[], from: readonly string[], isRead: boolean): ChangeStatement {
      const name = getTableName(table);
      const key = `${name} ${isRead} ${from.length} ${keys.join()}`;
      let change = made.get(key);
      if (!change) {
        const columns = getTableColumns(table);
        const sets = keys.map((each) => `"${(columns[each] as Column).name}" = ?`).join(", ");
        const states = from.map(() => "?").join(", ");
        const all = Object.values(columns).map((column) => `"${column.name}"`);
        const update = `UPDATE "${name}" SET ${sets} WHERE "id" = ? AND "status" IN (${states})`;
        const sql = isRead ? `${update} RETURNING ${all.join(", ")}` : update;
        change = { statement: db.$client.prepare<unknown, SQLQueryBindings[]>(sql), rowOf: decoderOf(table) };
        made.set(key, change);
      }
      return change;
    },
  };
});

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
