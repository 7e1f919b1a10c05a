import type { Database } from "bun:sqlite";

/** Where the database keeps what only the master key opens: table → column. One that seals something is added here. */
const SEALED = { secrets: "sealed", ssh_keys: "private_key_sealed", idempotency_keys: "response_sealed" } as const;

/** Any sealed text of the database: with one, the start needs the master key that sealed it. */
export function someSealed(sqlite: Database): string | undefined {
  for (const [table, column] of Object.entries(SEALED)) {
    const found = sqlite.query(`SELECT ${column} AS text FROM ${table} LIMIT 1`).get() as { text: string } | null;
    if (found) return found.text;
  }
  return undefined;
}
