import { Database } from "bun:sqlite";
import { afterEach, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { failpoints } from "../failpoint.ts";
import { closeDb, type Db, openDb } from "./db.ts";
import { migrate, requireCurrentSchema, schemaVersion } from "./migrate.ts";
import { MIGRATIONS, type Migration } from "./migrations/index.ts";

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
  (db.$client.query("SELECT name FROM sqlite_schema ORDER BY name").all() as { name: string }[]).map((t) => t.name);

test("the migrations of this program have ascending numbers and run on an empty file", () => {
  const versions = MIGRATIONS.map((m) => m.version);
  expect(versions).toEqual([...new Set(versions)].sort((a, b) => a - b));
  const at = dir();
  const db = open(at);
  expect(migrate(db, join(at, "backups"))).toBe(MIGRATIONS.length);
  expect(migrate(db, join(at, "backups"))).toBe(0);
  requireCurrentSchema(db);
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
