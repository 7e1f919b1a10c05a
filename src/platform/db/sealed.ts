import type { Database } from "bun:sqlite";

/** Table → column that holds text sealed with the master key. Add every new one here. */
const SEALED = {
  secrets: "sealed",
  ssh_keys: "private_key_sealed",
  idempotency_keys: "response_sealed",
  sessions: "env", // empty where there is none, and once the session is over
  webhook_endpoints: "secrets", // empty once it is deleted
  second_factors: "sealed",
} as const;

/** Any sealed text of the database: with one, the start needs the master key that sealed it. */
export function someSealed(sqlite: Database): string | undefined {
  for (const [table, column] of Object.entries(SEALED)) {
    const some = `SELECT ${column} AS text FROM ${table} WHERE ${column} <> '' LIMIT 1`;
    const found = sqlite.query(some).get() as { text: string } | null;
    if (found) return found.text;
  }
  return undefined;
}
