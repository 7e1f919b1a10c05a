import type { Database } from "bun:sqlite";
import type { Tx } from "./db.ts";

/** Table → column that holds text sealed with the master key. Add every new one here. */
const SEALED = {
  secrets: "sealed",
  ssh_keys: "private_key_sealed",
  idempotency_keys: "response_sealed",
  sessions: "env", // empty where there is none, and once the session is over
  webhook_endpoints: "secrets", // empty once it is deleted
  second_factors: "sealed",
  prefix_stores: "key_sealed",
  training_jobs: "env_sealed", // empty without variables
} as const;

/** Any sealed text of the database: with one, the start needs the master key that sealed it. */
export function someSealed(sqlite: Database): string | undefined {
  for (const [table, column] of Object.entries(SEALED)) {
    if (!sqlite.query("SELECT 1 FROM pragma_table_info(?) WHERE name = ?").get(table, column)) continue; // an older schema
    const some = `SELECT ${column} AS text FROM ${table} WHERE ${column} <> '' LIMIT 1`;
    const sample = sqlite.query(some).get() as { text: string } | null;
    if (sample) return sample.text;
  }
  return undefined;
}

/** Passes every sealed text through `change`. Run it inside one commit: the start accepts the texts of one key only. */
export function resealAll({ $client: sqlite }: Tx, change: (sealed: string) => string): number {
  let count = 0;
  for (const [table, column] of Object.entries(SEALED)) {
    const keys = sqlite
      .query<{ name: string }, [string]>("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk")
      .all(table)
      .map(({ name }) => name);
    const rows = sqlite.query<string[], []>(
      `SELECT ${[column, ...keys].join(", ")} FROM ${table} WHERE ${column} <> ''`,
    );
    const update = sqlite.query(
      `UPDATE ${table} SET ${column} = ? WHERE ${keys.map((key) => `${key} = ?`).join(" AND ")}`,
    );
    for (const [sealed = "", ...id] of rows.values() as string[][]) {
      update.run(change(sealed), ...id);
      count++;
    }
  }
  return count;
}
