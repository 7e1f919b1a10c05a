import type { Db } from "./db.ts";

/**
 * Reads the first row of every table, so that a start fails at once where the root of a table is damaged: a server that
 * cannot read a table must not accept work. Takes a millisecond, whatever the size. `verk doctor` reads everything.
 */
export function readEveryTable(db: Db) {
  const tables = db.$client
    .query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")
    .all();
  for (const { name } of tables) {
    const first = db.$client.prepare(`SELECT * FROM "${name}" LIMIT 1`);
    first.get();
    first.finalize();
  }
  db.$client.run("PRAGMA shrink_memory"); // most of the pages that were read are not needed again soon
}
