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
  const statementOf = prepared((db: Db) => {
    const query = db
      .select()
      .from(table)
      .where(where)
      .orderBy(...order);
    const { sql, params } = (order.length === 0 ? query : query.limit(1)).toSQL();
    return { statement: db.$client.prepare<unknown, SQLQueryBindings[]>(sql), params };
  });
  return (db: Db, values: Values): T["$inferSelect"] | undefined => {
    const { statement, params } = statementOf(db);
    const bound = params.map((param) => (is(param, Placeholder) ? values[param.name] : param)) as SQLQueryBindings[];
    const first = statement.values(...bound)[0];
    return first && rowOf(first);
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
 * `unread`: the answer is only whether the row was changed, which is twice as fast.
 */
export function changeRow(tx: Tx, table: Stateful, change: Change, unread: "unread"): boolean;
export function changeRow<T extends Stateful>(tx: Tx, table: T, change: Change): T["$inferSelect"] | undefined;
export function changeRow(tx: Tx, table: Stateful, { id, from, set }: Change, unread?: "unread") {
  const columns: Record<string, Column> = getTableColumns<SQLiteTable>(table);
  const keys = Object.keys(set).filter((key) => set[key] !== undefined);
  const { statement, rowOf } = changesOf(tx).get(table, keys, from, unread !== undefined);
  const values = keys.map((key) => (set[key] === null ? null : (columns[key] as Column).mapToDriverValue(set[key])));
  const bound = [...values, id, ...from] as SQLQueryBindings[];
  if (unread) return statement.run(...bound).changes > 0;
  const changed = statement.values(...bound)[0];
  return changed && rowOf(changed);
}

/** No expression among them that the database has to compute. */
export const isPlain = (set: Record<string, unknown>) => !Object.values(set).some((value) => is(value, SQL));

type ChangeStatement = {
  statement: Pick<Statement<unknown, SQLQueryBindings[]>, "values" | "run">;
  rowOf: (values: readonly unknown[]) => unknown;
};

const changesOf = prepared((db: Db) => {
  const statements = new Map<string, ChangeStatement>();
  return {
    get(table: SQLiteTable, keys: readonly string[], from: readonly string[], isUnread: boolean): ChangeStatement {
      const name = getTableName(table);
      const key = `${name} ${isUnread} ${from.length} ${keys.join()}`;
      let change = statements.get(key);
      if (!change) {
        const columns = getTableColumns(table);
        const sets = keys.map((each) => `"${(columns[each] as Column).name}" = ?`).join(", ");
        const states = from.map(() => "?").join(", ");
        const all = Object.values(columns).map((column) => `"${column.name}"`);
        const update = `UPDATE "${name}" SET ${sets} WHERE "id" = ? AND "status" IN (${states})`;
        const sql = isUnread ? update : `${update} RETURNING ${all.join(", ")}`;
        change = { statement: db.$client.prepare<unknown, SQLQueryBindings[]>(sql), rowOf: decoderOf(table) };
        statements.set(key, change);
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
    const cells = row as Record<string, unknown>;
    const bound = columns.map(([key, column]) => {
      const value = cells[key];
      return value === null ? null : column.mapToDriverValue(value);
    });
    statementOf(tx).run(...(bound as SQLQueryBindings[]));
    return row;
  };
}
