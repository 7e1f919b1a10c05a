import { SQLiteError } from "bun:sqlite";
import { chmodSync, closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { failpoint } from "../failpoint.ts";
import { syncDirSync } from "../files.ts";
import type { Db } from "./db.ts";
import { storageError } from "./errors.ts";
import { FRESH, MIGRATIONS, type Migration } from "./migrations/index.ts";
import { APPLIED, CREATE_APPLIED, inferApplied, repairSchema, type SchemaFault, schemaFault } from "./schema.ts";

export const schemaVersion = (db: Db) =>
  (db.$client.query("PRAGMA user_version").get() as { user_version: number }).user_version;

/**
 * Brings the database to this program's schema. It runs every migration that the database does not have, also one whose
 * number is below the newest. Each is one transaction with its name and version, so a kill leaves the old schema or the
 * new one. A database that already holds something is copied aside first.
 */
export function migrate(db: Db, backupDir: string, migrations: readonly Migration[] = MIGRATIONS): number {
  const from = schemaVersion(db);
  refuseNewer(from, migrations.at(-1)?.version ?? 0);
  if (migrations === MIGRATIONS && isEmpty(db)) return makeFresh(db);
  const applied = appliedTo(db, from, migrations);
  const pending = migrations.filter(({ name }) => !applied.has(name));
  if (pending.length > 0 && from > 0) backup(db, backupDir, from);
  recordInferred(db, applied);
  for (const migration of pending) apply(db, migration);
  return pending.length;
}

const isEmpty = (db: Db) => db.$client.query("SELECT 1 FROM sqlite_schema LIMIT 1").get() === null;

/** One transaction instead of one for each migration: it takes a quarter of the time. */
function makeFresh(db: Db): number {
  const { $client: sqlite } = db;
  sqlite
    .transaction(() => {
      sqlite.run(FRESH);
      sqlite.run(CREATE_APPLIED);
      const note = sqlite.prepare(`INSERT INTO ${APPLIED} VALUES (?, unixepoch() * 1000)`);
      for (const { name } of MIGRATIONS) note.run(name);
      note.finalize();
      sqlite.run(`PRAGMA user_version = ${MIGRATIONS.at(-1)?.version ?? 0}`);
      failpoint("db.before_migration_commit");
    })
    .immediate();
  return MIGRATIONS.length;
}

const hasList = (db: Db) => db.$client.query("SELECT 1 FROM sqlite_schema WHERE name = ?").get(APPLIED) !== null;
const listed = (db: Db) =>
  new Set(
    db.$client
      .query<{ name: string }, []>(`SELECT name FROM ${APPLIED}`)
      .all()
      .map(({ name }) => name),
  );

/** Names of the migrations that the database has. Earlier versions wrote down the highest number alone. */
function appliedTo(db: Db, from: number, migrations: readonly Migration[]): Set<string> {
  if (hasList(db)) return listed(db);
  const possible = migrations.filter(({ version }) => version <= from);
  return possible.length === 0 ? new Set() : inferApplied(db.$client, possible);
}

function recordInferred(db: Db, applied: ReadonlySet<string>) {
  if (hasList(db)) return;
  const { $client: sqlite } = db;
  sqlite
    .transaction(() => {
      sqlite.run(CREATE_APPLIED);
      for (const name of applied) sqlite.run(`INSERT OR IGNORE INTO ${APPLIED} (name) VALUES (?)`, [name]);
    })
    .immediate();
}

function apply(db: Db, { name, version, sql }: Migration) {
  db.$client.run("BEGIN IMMEDIATE");
  try {
    db.$client.run(sql);
    db.$client.run(`INSERT INTO ${APPLIED} VALUES (?, unixepoch() * 1000)`, [name]);
    if (schemaVersion(db) < version) db.$client.run(`PRAGMA user_version = ${version}`);
    failpoint("db.before_migration_commit");
    db.$client.run("COMMIT");
  } catch (error) {
    if (db.$client.inTransaction) db.$client.run("ROLLBACK");
    throw isFault(error) ? failed(name, schemaVersion(db), error) : error;
  }
}

/** An error of the statements themselves, as against one of the disk or of a damaged file. */
const isFault = (error: unknown): error is SQLiteError => error instanceof SQLiteError && storageError(error) === error;

const failed = (name: string, version: number, error: Error) =>
  new UsageError(
    `The migration ${name} does not fit the database, which keeps schema ${version}: ${error.message}. ` +
      "Start the version of verk that wrote it, or restore a copy from the backups folder of the data directory",
    2,
    { cause: error },
  );

/** Repairs what it can without loss, and throws one sentence if the tables are still not those of this version. */
export function checkSchema(db: Db): SchemaFault | undefined {
  if (!schemaFault(db.$client)) return undefined;
  try {
    repairSchema(db.$client);
  } catch (error) {
    if (!isFault(error)) throw error; // else: the comparison names the part that cannot be made
  }
  const fault = schemaFault(db.$client);
  if (fault?.isFatal) throw new UsageError(`The database cannot be used, because ${fault.detail}: ${fault.fix}`);
  return fault;
}

/** For a process that must not migrate, because a server of another version may be running on this database. */
export function requireCurrentSchema(db: Db) {
  const latest = MIGRATIONS.at(-1)?.version ?? 0;
  const version = schemaVersion(db);
  refuseNewer(version, latest);
  const applied = hasList(db) ? listed(db) : new Set();
  if (MIGRATIONS.some(({ name }) => !applied.has(name)))
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
