import type { Database } from "bun:sqlite";

/** Where the database keeps what only the master key opens. A table that seals something is added here. */
export const SEALED_TABLES = ["secrets", "ssh_keys", "idempotency_keys"] as const;

/** Whether a missing master key would lose something: then it must stop the start. */
export const holdsSealed = (sqlite: Database) =>
  SEALED_TABLES.some((table) => sqlite.query(`SELECT 1 FROM ${table} LIMIT 1`).get() !== null);
