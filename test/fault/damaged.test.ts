// tier: all (sweeps of faults)
/** A database with overwritten pages, under the compiled executable. */
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  closeSync,
  copyFileSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { makeKey, runVerk } from "../cli.ts";
import { tempDir } from "../harness.ts";

const PAGE = 4096;
let whole: string;
let key: string;
const dirs: string[] = [];
beforeAll(async () => {
  whole = tempDir();
  dirs.push(whole);
  key = (await makeKey(whole, "--scope", "admin")).key;
  const db = new Database(join(whole, "verk.db"));
  const workspace = db.query<{ id: string }, []>("SELECT id FROM workspaces").get()?.id ?? "";
  for (let i = 0; i < 100; i++) {
    const text = "x".repeat(500);
    db.run(
      `INSERT INTO volumes (id, workspace_id, name, total_bytes, file_count, metadata, created_at, updated_at)
         VALUES (?, ?, ?, 0, 0, ?, 1, 1)`,
      [`vol_${i}`, workspace, `v${i}`, JSON.stringify({ text })],
    );
    db.run(
      `INSERT INTO code_artifacts (id, workspace_id, name, format, sha256, size_bytes, file_count, unpacked_bytes,
         storage_key, metadata, created_at, updated_at) VALUES (?1, ?2, ?3, 'zip', ?1, 1, 1, 1, ?1, '{}', 1, 1)`,
      [`art_${i}`, workspace, text],
    );
  }
  db.close();
}, 60_000);
afterAll(() => {
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
});

/** A copy of the data directory whose database `damage` has changed. */
function damaged(damage: (path: string, db: Database) => void): string {
  const dir = tempDir();
  dirs.push(dir);
  mkdirSync(dir, { recursive: true });
  for (const name of ["verk.db", "master.key"]) copyFileSync(join(whole, name), join(dir, name));
  const path = join(dir, "verk.db");
  const db = new Database(path);
  db.run("PRAGMA journal_mode = DELETE"); // everything is in the one file
  damage(path, db);
  return dir;
}

function overwrite(path: string, page: number) {
  const fd = openSync(path, "r+");
  writeSync(fd, new Uint8Array(PAGE).fill(0x5a), 0, PAGE, (page - 1) * PAGE);
  closeSync(fd);
}

const rootOf = (db: Database, table: string) =>
  db.query<{ p: number }, [string]>("SELECT rootpage AS p FROM sqlite_schema WHERE name = ?").get(table)?.p ?? 0;

const root = (table: string) => (path: string, db: Database) => {
  const page = rootOf(db, table);
  db.close();
  overwrite(path, page);
};

const ONE_SENTENCE =
  /^verk: The database \S+verk\.db is damaged: run `verk doctor`, then restore a backup with `verk backup restore`$/m;

const AT_START: [string, (path: string, db: Database) => void][] = [
  [
    "the header",
    (path, db) => {
      db.close();
      overwrite(path, 1);
    },
  ],
  ["the root of workspaces", root("workspaces")],
  ["the root of events", root("events")],
  [
    "the half of the file",
    (path, db) => {
      db.close();
      truncateSync(path, Math.floor(statSync(path).size / PAGE / 2) * PAGE);
    },
  ],
];

describe("D7 F7 damaged database", () => {
  test.each(AT_START)(
    "%s: the start ends with one sentence and exit code 2",
    async (_what, damage) => {
      const dir = damaged(damage);
      const { code, err } = await runVerk(["serve", "--data", dir, "--listen", "127.0.0.1:0"], { cwd: dir });
      expect(err).toMatch(ONE_SENTENCE);
      expect(err).not.toMatch(/ {4}at |@bun|SQLiteError:|Bun v/);
      expect(code).toBe(2);
      const command = await runVerk(["keys", "list", "--data", dir], { cwd: dir });
      expect([command.code, command.err]).toEqual([2, expect.stringMatching(ONE_SENTENCE)]);
    },
    60_000,
  );

  /** The last leaf of a table with several pages: where the newest rows are. */
  const lastLeaf = (table: string) => (path: string, db: Database) => {
    const root = rootOf(db, table);
    db.close();
    const page = readFileSync(path).subarray((root - 1) * PAGE, root * PAGE);
    expect(page[0]).toBe(5); // an inner page of a table
    overwrite(path, page.readUInt32BE(8));
  };

  test("a damaged leaf on the path of writes: the server starts, the writes are 503, and then /readyz too", async () => {
    const server = await startBinary({ dir: damaged(lastLeaf("volumes")), key });
    try {
      const written = await server.call("POST", "/v1/volumes", { name: "x" });
      expect([written.status, written.body.error.code]).toEqual([503, "storage_unavailable"]);
      const ready = await server.call("GET", "/readyz");
      expect([ready.status, ready.body.error.message]).toEqual([503, expect.stringContaining("damaged")]);
      expect((await server.call("GET", "/healthz")).status).toBe(200);
    } finally {
      await server.kill("SIGTERM");
    }
  }, 60_000);

  test("a damaged leaf on the path of a read: that read is 503, and then /readyz too", async () => {
    const server = await startBinary({ dir: damaged(lastLeaf("code_artifacts")), key });
    try {
      expect((await server.call("GET", "/readyz")).status).toBe(200);
      expect((await server.call("GET", "/v1/code_artifacts")).body.error.code).toBe("storage_unavailable");
      expect((await server.call("GET", "/readyz")).status).toBe(503);
      expect((await server.call("GET", "/v1/workspaces")).status).toBe(200);
    } finally {
      await server.kill("SIGTERM");
    }
  }, 60_000);
});
