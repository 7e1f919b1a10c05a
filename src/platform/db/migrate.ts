import { chmodSync, closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { failpoint } from "../failpoint.ts";
import { syncDirSync } from "../files.ts";
import type { Db } from "./db.ts";
import { MIGRATIONS, type Migration } from "./migrations/index.ts";

export const schemaVersion = (db: Db) =>
  (db.$client.query("PRAGMA user_version").get() as { user_version: number }).user_version;

/**
 * Brings the database to this program's schema. Each migration is one transaction with its version, so a kill
 * leaves the old schema or the new one. A database that already holds something is copied aside first.
 */
export function migrate(db: Db, backupDir: string, migrations: readonly Migration[] = MIGRATIONS): number {
  const from = schemaVersion(db);
  const latest = migrations.at(-1)?.version ?? 0;
  refuseNewer(from, latest);
  if (from === latest) return 0;
  if (from > 0) backup(db, backupDir, from);
  const pending = migrations.filter((m) => m.version > from);
  for (const { version, sql } of pending) {
    db.$client.run("BEGIN IMMEDIATE");
    try {
      if (schemaVersion(db) < version) {
        db.$client.run(sql);
        db.$client.run(`PRAGMA user_version = ${version}`);
      }
      failpoint("db.before_migration_commit");
      db.$client.run("COMMIT");
    } catch (error) {
      if (db.$client.inTransaction) db.$client.run("ROLLBACK");
      throw error;
    }
  }
  return pending.length;
}

/** For a process that must not migrate, because a server of another version may be running on this database. */
export function requireCurrentSchema(db: Db) {
  const latest = MIGRATIONS.at(-1)?.version ?? 0;
  const version = schemaVersion(db);
  refuseNewer(version, latest);
  if (version < latest)
    throw new UsageError(
      `The running server uses database schema ${version}, this verk needs ${latest}: restart the server with this version first`,
      4,
    );
}

function refuseNewer(version: number, latest: number) {
  if (version > latest)
    throw new UsageError(
      `The database has schema ${version}, this verk knows up to ${latest}: it was written by a newer version. ` +
        "Start that version, or restore a backup from the backups folder of the data directory",
      4,
    );
}

function backup(db: Db, dir: string, version: number) {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const path = join(dir, `schema-${version}.db`);
  const temp = `${path}.${process.pid}.tmp`;
  rmSync(temp, { force: true });
  db.$client.run(`VACUUM INTO '${temp.replaceAll("'", "''")}'`);
  chmodSync(temp, 0o600);
  const fd = openSync(temp, "r+");
  fsyncSync(fd);
  closeSync(fd);
  renameSync(temp, path);
  syncDirSync(dir);
}
