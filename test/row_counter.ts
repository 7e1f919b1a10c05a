/** Counts what statements of SQLite return, for tests that say how much work something takes instead of how long. */
import { Database, type Statement } from "bun:sqlite";

export type Counted = { statements: number; rows: number; sql: string[] };

type Reader = (...args: unknown[]) => unknown;

/**
 * Counts in every statement that is prepared from here on, in any database of this process, until `stop()`.
 * Install it before the application is opened: statements are prepared once and kept.
 */
export function countRows() {
  const own = Database.prototype.prepare;
  let counted: Counted = { statements: 0, rows: 0, sql: [] };
  const watch = (statement: Statement, sql: string) => {
    for (const name of ["all", "values", "get", "run"] as const) {
      const read = statement[name].bind(statement) as Reader;
      const watched: Reader = (...args) => {
        const found = read(...args);
        counted.statements++;
        counted.rows += Array.isArray(found) && name !== "get" ? found.length : 0;
        if (name === "get" && found !== null && found !== undefined) counted.rows++;
        counted.sql.push(sql);
        return found;
      };
      Object.defineProperty(statement, name, { value: watched, configurable: true });
    }
    return statement;
  };
  Database.prototype.prepare = function (this: Database, sql: string, ...more: never[]) {
    return watch(own.call(this, sql, ...more) as Statement, sql);
  } as typeof own;
  return {
    /** Statements and rows of `work`. */
    async of(work: () => unknown): Promise<Counted> {
      counted = { statements: 0, rows: 0, sql: [] };
      await work();
      return counted;
    },
    stop() {
      Database.prototype.prepare = own;
    },
  };
}

/** The query plan of SQLite: a line for each table that a statement reads. */
export const planOf = (db: Database, sql: string): string[] =>
  db
    .query<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${sql}`)
    .all()
    .map(({ detail }) => detail);
