import { sql } from "drizzle-orm";
import type { Db } from "../../platform/db.ts";

/** Whether anything in the database is sealed with the master key: then a missing key file must stop the start. */
export function holdsSecrets(db: Db): boolean {
  const row = db.get<{ n: number }>(
    sql`SELECT (SELECT count(*) FROM secrets) + (SELECT count(*) FROM ssh_keys) + (SELECT count(*) FROM idempotency_keys) AS n`,
  );
  return (Array.isArray(row) ? Number(row[0]) : row.n) > 0;
}
