import { afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "../../lib/errors.ts";
import { failpoints } from "../failpoint.ts";
import {
  afterCommit,
  closeDb,
  type Db,
  durable,
  isBroken,
  isDirty,
  joinCommit,
  openDb,
  watchWrites,
  write,
} from "./db.ts";
import { freshSnapshot, shareSnapshot } from "./snapshot.ts";

const dirs: string[] = [];
const open: Db[] = [];
afterEach(() => {
  delete failpoints.hit;
  for (const db of open.splice(0)) closeDb(db);
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true });
});

function database(path?: string): Db {
  if (path === undefined) {
    dirs.push(mkdtempSync(join(tmpdir(), "verk-db-")));
    path = join(dirs.at(-1) as string, "verk.db");
  }
  const db = openDb({ path, busyTimeoutMs: 50 });
  open.push(db);
  db.$client.run("CREATE TABLE IF NOT EXISTS t (x TEXT PRIMARY KEY) STRICT");
  return db;
}
const insert = (db: Db, x: string) => db.$client.run("INSERT INTO t VALUES (?)", [x]);
const all = (db: Db) => (db.$client.query("SELECT x FROM t ORDER BY x").all() as { x: string }[]).map((row) => row.x);

describe("write", () => {
  test("keeps everything of a commit or nothing of it", () => {
    const db = database();
    expect(() =>
      write(db, (tx) => {
        insert(tx, "a");
        throw new Error("no");
      }),
    ).toThrow("no");
    expect(all(db)).toEqual([]);
  });

  test("an inner failure that is caught loses only the inner part", () => {
    const db = database();
    write(db, (tx) => {
      insert(tx, "outer");
      try {
        write(tx, () => {
          insert(tx, "inner");
          throw new Error("inner");
        });
      } catch {}
    });
    expect(all(db)).toEqual(["outer"]);
  });

  test("a callback that waits for the commit runs once after it, and never after a rollback", async () => {
    const db = database();
    const ran: string[] = [];
    write(db, (tx) => {
      afterCommit(tx, () => ran.push(`outer, in transaction: ${db.$client.inTransaction}`));
      try {
        write(tx, (inner) => {
          afterCommit(inner, () => ran.push("rolled back"));
          throw new Error("inner");
        });
      } catch {}
    });
    expect(ran).toEqual([]);
    await durable(db);
    expect(ran).toEqual(["outer, in transaction: false"]);
    const failing = () =>
      write(db, (tx) => {
        afterCommit(tx, () => ran.push("never"));
        throw new Error("outer");
      });
    expect(failing).toThrow("outer");
    await durable(db);
    expect(ran).toHaveLength(1);
  });

  test("writes of one turn share a commit, and a write that fails does not undo the others", async () => {
    const db = database();
    let commits = 0;
    failpoints.hit = (name) => void (name === "db.before_commit" && commits++);
    write(db, (tx) => insert(tx, "a"));
    expect(() => write(db, (tx) => insert(tx, "a"))).toThrow(/UNIQUE/);
    write(db, (tx) => insert(tx, "b"));
    await durable(db);
    expect(commits).toBe(1);
    expect(all(database(db.$client.filename))).toEqual(["a", "b"]);
  });

  test("the first write of a commit needs no savepoint; if it fails, the writes after it still share the commit", async () => {
    const db = database();
    const ran: string[] = [];
    let commits = 0;
    failpoints.hit = (name) => void (name === "db.before_commit" && commits++);
    const failing = () =>
      write(db, (tx) => {
        insert(tx, "undone");
        afterCommit(tx, () => ran.push("undone"));
        throw new Error("no");
      });
    expect(failing).toThrow("no");
    expect([db.$client.inTransaction, all(db)]).toEqual([true, []]);
    expect(failing).toThrow("no");
    write(db, (tx) => insert(tx, "a"));
    expect(db.$commits.savepoints).toEqual([]);
    expect(failing).toThrow("no"); // now it has a neighbour
    expect(db.$commits.savepoints).toHaveLength(1);
    await durable(db);
    expect([commits, ran]).toEqual([1, []]);
    expect(all(database(db.$client.filename))).toEqual(["a"]);
  });

  test("a first write that fails while another process takes the lock leaves no commit open", async () => {
    const db = database();
    const other = database(db.$client.filename);
    const { begin } = db.$commits.statements;
    let begins = 0;
    const takeLock = () => {
      if (++begins === 2) other.$client.run("BEGIN IMMEDIATE");
      return begin.run();
    };
    Object.assign(db.$commits.statements, { begin: { run: takeLock } });
    const watched = watchWrites(db);
    expect(() =>
      write(db, (tx) => {
        insert(tx, "undone");
        throw new Error("no");
      }),
    ).toThrow("no");
    await expect(watched()).rejects.toThrow(/Another process/);
    other.$client.run("ROLLBACK");
    write(db, (tx) => insert(tx, "a"));
    await durable(db);
    expect(all(other)).toEqual(["a"]);
  });

  test("a callback that joined a commit keeps its rows when a write behind it fails", async () => {
    const db = database();
    joinCommit(db, (tx) => void insert(tx, "joined"));
    joinCommit(db, (tx) => {
      expect(() =>
        write(tx, () => {
          insert(tx, "undone");
          throw new Error("no");
        }),
      ).toThrow("no");
    });
    await durable(db);
    expect(all(db)).toEqual(["joined"]);
  });

  test("another connection sees a change when its commit has closed, not before", async () => {
    const db = database();
    const other = database(db.$client.filename);
    write(db, (tx) => insert(tx, "a"));
    expect(all(db)).toEqual(["a"]);
    expect(all(other)).toEqual([]);
    await durable(db);
    expect(all(other)).toEqual(["a"]);
  });

  test("when a commit is lost, every writer in it gets the error, also a writer that waits much later", async () => {
    const db = database();
    const early = watchWrites(db);
    write(db, (tx) => insert(tx, "a"));
    failpoints.hit = (name) => {
      if (name === "db.before_commit") throw Object.assign(new Error("no space"), { code: "SQLITE_FULL" });
    };
    await expect(durable(db)).rejects.toThrow(/full/);
    delete failpoints.hit;
    const late = watchWrites(db);
    write(db, (tx) => insert(tx, "b"));
    await late();
    await expect(early()).rejects.toThrow(/full/);
    expect(all(db)).toEqual(["b"]);
  });

  test("a lock that another process holds is a 503 that asks the caller to try again", () => {
    const db = database();
    const other = database(db.$client.filename);
    other.$client.run("BEGIN IMMEDIATE");
    expect(() => write(db, (tx) => insert(tx, "a"))).toThrow(AppError);
    other.$client.run("ROLLBACK");
    write(db, (tx) => insert(tx, "a"));
    expect(all(db)).toEqual(["a"]);
  });

  test("a full database is a 503 and changes nothing, also inside a savepoint", async () => {
    const db = database();
    db.$client.run("PRAGMA max_page_count = 20");
    const fill = () => write(db, (tx) => write(tx, () => insert(tx, "x".repeat(200_000))));
    const watched = watchWrites(db);
    write(db, (tx) => insert(tx, "neighbour"));
    expect(fill).toThrow(/disk .* is full/);
    const neighbourKept = await watched().then(
      () => true,
      () => false,
    ); // SQLite may roll back all or the part
    expect(all(db)).toEqual(neighbourKept ? ["neighbour"] : []);
    write(db, (tx) => insert(tx, "small"));
    await durable(db);
    expect(all(db)).toContain("small");
  });
});

describe("a shared snapshot", () => {
  test("ends by itself, at once with a write, and on a request for a fresh snapshot", async () => {
    const db = database();
    const other = database(db.$client.filename);
    shareSnapshot(db);
    expect(all(db)).toEqual([]);
    write(other, (tx) => insert(tx, "theirs"));
    await durable(other);
    while (all(db).length === 0) await new Promise(setImmediate);
    expect(all(db)).toEqual(["theirs"]);
    shareSnapshot(db);
    expect(all(db)).toHaveLength(1);
    write(other, (tx) => insert(tx, "and more"));
    closeDb(open.splice(open.indexOf(other), 1)[0] as Db);
    expect(all(db)).toHaveLength(1);
    freshSnapshot(db);
    expect(all(db)).toHaveLength(2);
    shareSnapshot(db);
    write(db, (tx) => insert(tx, "ours"));
    shareSnapshot(db);
    expect(all(db)).toEqual(["and more", "ours", "theirs"]);
    await durable(db);
  });
});

/** Never called: the compiler is the test. */
export function misuses(db: Db) {
  // @ts-expect-error an await inside would run after the commit
  write(db, async (tx) => insert(tx, "late"));
  // @ts-expect-error only write() makes a Tx
  afterCommit(db, () => {});
}

describe("durable", () => {
  test("many writers share few flushes, and each has its write covered", async () => {
    const db = database();
    let flushes = 0;
    failpoints.hit = (name) => void (name === "db.before_flush" && flushes++);
    await Promise.all(
      Array.from({ length: 200 }, async (_, i) => {
        await new Promise(setImmediate);
        write(db, (tx) => insert(tx, `w${i}`));
        await durable(db);
      }),
    );
    expect(isDirty(db)).toBe(false);
    expect(all(db)).toHaveLength(200);
    expect(flushes).toBeGreaterThan(0);
    expect(flushes).toBeLessThan(50);
  });

  test("a write during a flush waits for the next flush", async () => {
    const db = database();
    const flushes: string[] = [];
    failpoints.hit = (name) => {
      flushes.push(name);
      if (name === "db.before_flush" && flushes.filter((n) => n === name).length === 1)
        write(db, (tx) => insert(tx, "second"));
    };
    write(db, (tx) => insert(tx, "first"));
    await durable(db);
    expect(isDirty(db)).toBe(true);
    await durable(db);
    expect(isDirty(db)).toBe(false);
    expect(flushes.filter((n) => n === "db.after_flush")).toHaveLength(2);
  });

  test("after a failed flush no more writes are accepted", async () => {
    const db = database();
    write(db, (tx) => insert(tx, "a"));
    failpoints.hit = (name) => {
      if (name === "db.before_flush") throw Object.assign(new Error("bad disk"), { code: "EIO" });
    };
    await expect(durable(db)).rejects.toThrow(/reports errors/);
    delete failpoints.hit;
    expect(isBroken(db)).toBe(true);
    expect(() => write(db, (tx) => insert(tx, "b"))).toThrow(/reports errors/);
  });

  test("a closed database accepts neither a write nor a callback that would join a write", async () => {
    const db = database();
    write(db, (tx) => insert(tx, "a"));
    closeDb(open.pop() as Db);
    expect(() => joinCommit(db, () => {})).toThrow();
    expect(() => write(db, () => {})).toThrow();
    await new Promise(setImmediate); // no commit was opened that would close now, into nothing
  });

  test("a database that is closed while a write waits for its flush keeps the write and ends the wait", async () => {
    const db = database();
    const path = join(dirs.at(-1) as string, "verk.db");
    write(db, (tx) => insert(tx, "a"));
    failpoints.hit = (name) => {
      if (name !== "db.before_flush") return;
      db.$client.run("PRAGMA wal_checkpoint(TRUNCATE)");
      closeDb(open.pop() as Db);
      rmSync(`${path}-wal`, { force: true }); // SQLite does both by itself, once no statement is left
    };
    await durable(db);
    delete failpoints.hit;
    expect(all(database(path))).toEqual(["a"]);
  });
});
