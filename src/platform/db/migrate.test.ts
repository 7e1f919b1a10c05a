import { Database } from "bun:sqlite";
import { afterEach, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { failpoints } from "../failpoint.ts";
import { closeDb, type Db, openDb } from "./db.ts";
import { checkSchema, migrate, requireCurrentSchema, schemaVersion } from "./migrate.ts";
import { FRESH_TEXTS, MIGRATIONS, type Migration } from "./migrations/index.ts";
import { fingerprintOf, makersOf, schemaFault, textsFingerprintOf } from "./schema.ts";

const dir = () => {
  made.push(mkdtempSync(join(tmpdir(), "verk-migrate-")));
  return made.at(-1) as string;
};
const made: string[] = [];
const opened: Db[] = [];
const open = (at: string) => {
  opened.push(openDb({ path: join(at, "verk.db"), busyTimeoutMs: 50 }));
  return opened.at(-1) as Db;
};
afterEach(() => {
  delete failpoints.hit;
  for (const db of opened.splice(0)) closeDb(db);
  for (const at of made.splice(0)) rmSync(at, { recursive: true, force: true });
});

const ONE: Migration = { version: 1, name: "0001_a", sql: "CREATE TABLE a (x TEXT); INSERT INTO a VALUES ('kept');" };
const TWO: Migration = { version: 2, name: "0002_b", sql: "CREATE TABLE b (y TEXT); INSERT INTO b SELECT x FROM a;" };
const BAD: Migration = { version: 3, name: "0003_c", sql: "CREATE TABLE c (z TEXT); INSERT INTO missing VALUES (1);" };
const tables = (db: Db) =>
  (
    db.$client
      .query("SELECT name FROM sqlite_schema WHERE name NOT LIKE '%schema_migrations%' ORDER BY name")
      .all() as { name: string }[]
  ).map((t) => t.name);

test("the migrations of this program have ascending numbers and run on an empty file", () => {
  const versions = MIGRATIONS.map((m) => m.version);
  expect(versions).toEqual([...new Set(versions)].sort((a, b) => a - b));
  const at = dir();
  const db = open(at);
  expect(migrate(db, join(at, "backups"))).toBe(MIGRATIONS.length);
  expect(migrate(db, join(at, "backups"))).toBe(0);
  requireCurrentSchema(db);
  expect(checkSchema(db)).toBeUndefined();
  expect(textsFingerprintOf(db.$client)).toBe(FRESH_TEXTS); // so that a start need not read its parts
  expect(existsSync(join(at, "backups"))).toBe(false); // there was nothing to lose
});

test("a database with content is copied before it is changed, and only its owner may read the copy", () => {
  const at = dir();
  const db = open(at);
  migrate(db, join(at, "backups"), [ONE]);
  migrate(db, join(at, "backups"), [ONE, TWO]);
  expect(tables(db)).toEqual(["a", "b"]);
  const copy = join(at, "backups", "schema-1.db");
  const backup = new Database(copy, { readonly: true });
  expect(backup.query("SELECT x FROM a").get()).toEqual({ x: "kept" });
  expect(backup.query("PRAGMA user_version").get()).toEqual({ user_version: 1 });
  backup.close();
  expect(statSync(copy).mode & 0o077).toBe(0);
});

test("a migration that fails leaves the earlier schema unchanged", () => {
  const at = dir();
  const db = open(at);
  migrate(db, join(at, "backups"), [ONE]);
  expect(() => migrate(db, join(at, "backups"), [ONE, TWO, BAD])).toThrow(/missing/);
  expect(schemaVersion(db)).toBe(2);
  expect(tables(db)).toEqual(["a", "b"]);
  expect(readdirSync(join(at, "backups"))).toEqual(["schema-1.db"]);
});

test("stopped before its commit, a migration has not happened; the next start does it", () => {
  const at = dir();
  const db = open(at);
  migrate(db, join(at, "backups"), [ONE]);
  failpoints.hit = (name) => {
    if (name === "db.before_migration_commit") throw new Error("power cut");
  };
  expect(() => migrate(db, join(at, "backups"), [ONE, TWO])).toThrow("power cut");
  expect(schemaVersion(db)).toBe(1);
  delete failpoints.hit;
  expect(migrate(open(at), join(at, "backups"), [ONE, TWO])).toBe(1);
});

test("a newer schema is refused with its version, and so is an older one under a running server", () => {
  const at = dir();
  const db = open(at);
  migrate(db, join(at, "backups"), [ONE, TWO]);
  expect(() => migrate(db, join(at, "backups"), [ONE])).toThrow(UsageError);
  expect(() => migrate(db, join(at, "backups"), [ONE])).toThrow(/schema 2.*knows up to 1.*newer version/);
  const fresh = open(dir());
  expect(() => requireCurrentSchema(fresh)).toThrow(/restart the server/);
});

/** Migrates as earlier versions did: they wrote down the highest number alone. */
function migrateByNumber(db: Db, migrations: readonly Migration[]) {
  for (const { sql } of migrations) db.$client.run(sql);
  db.$client.run(`PRAGMA user_version = ${migrations.at(-1)?.version}`);
}
const versionOf = (name: string) => MIGRATIONS.find((each) => each.name === name)?.version ?? 0;
const listed = (db: Db) => db.$client.query("SELECT name, applied_at FROM schema_migrations ORDER BY name").all();

test("R1: a lower number that comes later is applied, and both numbers are written down", () => {
  const at = dir();
  const db = open(at);
  expect(migrate(db, join(at, "backups"), [ONE, { ...BAD, sql: "CREATE TABLE c (z TEXT);" }])).toBe(2);
  expect(migrate(db, join(at, "backups"), [ONE, TWO, { ...BAD, sql: "CREATE TABLE c (z TEXT);" }])).toBe(1);
  expect(tables(db)).toEqual(["a", "b", "c"]);
  expect(schemaVersion(db)).toBe(3);
  expect(listed(db)).toEqual([ONE, TWO, BAD].map(({ name }) => ({ name, applied_at: expect.any(Number) })));
});

test("R1: every migration makes a part of the schema that proves it", () => {
  const proven = new Set(makersOf(MIGRATIONS).values());
  expect(MIGRATIONS.map(({ name }) => name).filter((name) => !proven.has(name))).toEqual([]);
});

test("R1: a database of schema 21 without 0020_traces gets it, and its rows stay", () => {
  const at = dir();
  const db = open(at);
  const had = MIGRATIONS.filter(({ version, name }) => version <= 21 && name !== "0020_traces");
  migrateByNumber(db, had);
  db.$client.run("INSERT INTO settings (key, value, updated_at) VALUES ('kept', 'yes', 1)");
  expect(migrate(db, join(at, "backups"))).toBe(MIGRATIONS.length - had.length);
  expect(checkSchema(db)).toBeUndefined();
  expect(db.$client.query("SELECT value FROM settings WHERE key = 'kept'").get()).toEqual({ value: "yes" });
  expect(readdirSync(join(at, "backups"))).toEqual(["schema-21.db"]);
});

test("R1: a database of schema 50 without 0042_slurm, with an early text of 0041, is repaired", () => {
  const at = dir();
  const db = open(at);
  const early = (sql: string) => sql.replaceAll("completed_at, reading, region)", "completed_at, reading)");
  const had = MIGRATIONS.filter(({ version, name }) => version <= 50 && name !== "0042_slurm").map((each) =>
    each.name === "0041_remote_runs" ? { ...each, sql: early(each.sql) } : each,
  );
  migrateByNumber(db, had);
  migrate(db, join(at, "backups"));
  expect(schemaFault(db.$client)?.detail).toContain("index training_jobs_queue");
  expect(checkSchema(db)).toBeUndefined();
  expect(listed(db)).toContainEqual({ name: "0042_slurm", applied_at: expect.any(Number) });
  expect(listed(db)).toContainEqual({ name: "0041_remote_runs", applied_at: null });
  // The same where later versions have already gone over it.
  const later = open(dir());
  migrateByNumber(
    later,
    MIGRATIONS.filter(({ name }) => versionOf(name) <= 72 && name !== "0042_slurm"),
  );
  migrate(later, join(at, "backups"));
  expect(checkSchema(later)).toBeUndefined();
});

test("R1: a failed migration is one sentence of the operator", () => {
  const at = dir();
  const db = open(at);
  const fail = () => migrate(db, join(at, "backups"), [ONE, TWO, BAD]);
  expect(fail).toThrow(UsageError);
  expect(fail).toThrow(
    /^The migration 0003_c does not fit the database, which keeps schema 2: no such table.*backups folder/,
  );
});

test("R1: a table that is not as in a fresh database stops the start with one sentence; an index is made anew", () => {
  const at = dir();
  const db = open(at);
  migrate(db, join(at, "backups"));
  db.$client.run("DROP INDEX regions_list; ALTER TABLE regions DROP COLUMN slurm; CREATE INDEX mine ON regions (name)");
  expect(checkSchema(db)).toEqual({
    detail: "the schema is not the one of this version: it also has index mine",
    fix: expect.stringContaining("by hand"),
    isFatal: false,
  });
  db.$client.run("DROP INDEX mine; DROP TABLE person_identities");
  expect(() => checkSchema(db)).toThrow(UsageError);
  expect(() => checkSchema(db)).toThrow(
    /because the schema .* lacks table person_identities, index person_identities_person: start the version/,
  );
});

test("a new database made at once is the one that all migrations make, with their rows", () => {
  const dump = (db: Db) => {
    const names = tables(db).filter((name) =>
      db.$client.query("SELECT 1 FROM pragma_table_list WHERE name = ? AND type = 'table'").get(name),
    );
    return names.map((name) => [name, db.$client.query(`SELECT * FROM "${name}"`).all()]);
  };
  const [atOnce, stepByStep] = [open(dir()), open(dir())];
  migrate(atOnce, dir());
  migrate(stepByStep, dir(), [...MIGRATIONS]);
  expect(fingerprintOf(atOnce.$client)).toBe(fingerprintOf(stepByStep.$client));
  expect(dump(atOnce)).toEqual(dump(stepByStep));
  expect(schemaVersion(atOnce)).toBe(schemaVersion(stepByStep));
  const names = (db: Db) => db.$client.query("SELECT name FROM schema_migrations ORDER BY name").all();
  expect(names(atOnce)).toEqual(names(stepByStep));
  expect(migrate(atOnce, dir())).toBe(0);
});

test("a kill while a new database is made leaves an empty one", () => {
  const at = dir();
  const db = open(at);
  failpoints.hit = (name) => {
    if (name === "db.before_migration_commit") throw new Error("power cut");
  };
  expect(() => migrate(db, join(at, "backups"))).toThrow("power cut");
  delete failpoints.hit;
  expect(tables(db)).toEqual([]);
  expect(migrate(db, join(at, "backups"))).toBe(MIGRATIONS.length);
});
